#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "chat_partner.h"
#include "input.h"
#include "output.h"

namespace gpt {
namespace {

using nlohmann::json;

gptcpp::Chat open_chat(const gptcpp::Context& context, const ChatArguments& a) {
  if (!a.generate.tokenizer.empty()) require_whole_tokenizer(a.generate.tokenizer);
  const gptcpp::Model model(
      context, a.generate.model,
      {.tokenizer = a.generate.tokenizer, .chat_format = a.format, .adapters = adapter_options(a.generate)});
  gptcpp::SessionOptions session{.n_ctx = a.n_ctx};
  set_types(session, a.generate);
  set_speculation(session, a.generate);
  gptcpp::Chat chat(model, a.system, session);
  gptcpp::check(model, generate_options(a.generate));
  return chat;
}

class LocalPartner final : public ChatPartner {
 public:
  explicit LocalPartner(const ChatArguments& a)
      : options_(generate_options(a.generate)),
        context_(context_options(a.generate.machine)),
        chat_(open_chat(context_, a)) {}

  std::string greeting() const override {
    return fmt::format("{} format, {} tokens of context", chat_.format(), format_thousands(chat_.n_ctx()));
  }
  void cancel() override { context_.cancel(); }
  void reset() override { chat_.reset(); }

  Answer say(const std::string& message, const std::function<void(const std::string&)>& show) override {
    options_.number = number_;
    bool begun = false;
    const auto begin = [&] {
      if (!begun) note_forgotten();
      begun = true;
    };
    const gptcpp::Result result = answer(message, [&](const gptcpp::Piece& piece) {
      begin();
      show(std::string(piece.text));
      return true;
    });
    ++number_;
    begin();
    return {.tokens = std::ssize(result.ids),
            .was_cut = std::ssize(chat_.prompt_ids()) + std::ssize(result.ids) >= chat_.n_ctx(),
            .record = record(result),
            .note = speculation_note(result.draft_tokens, result.accepted_tokens)};
  }

 private:
  // Generates the response. After Ctrl-C, returns the part that was generated before.
  gptcpp::Result answer(const std::string& message, const gptcpp::OnPiece& show) {
    context_.resume();
    gptcpp::Result result;
    const auto keep = [&](const gptcpp::Piece& piece) {
      if (piece.id >= 0) result.ids.push_back(piece.id);
      return show(piece);
    };
    try {
      result = chat_.say(message, options_, keep);
    } catch (const gptcpp::Error& error) {
      if (error.code() != gptcpp::Code::cancelled) throw;
    }
    return result;
  }

  void note_forgotten() const {
    if (chat_.forgotten() == 0) return;
    write_note(fmt::format("note: the context of {} tokens is full; the oldest turns ({}) were dropped\n",
                           format_thousands(chat_.n_ctx()), chat_.forgotten()));
  }

  std::string record(const gptcpp::Result& result) const {
    return json{{"text", result.text},
                {"ids", result.ids},
                {"prompt_ids", chat_.prompt_ids()},
                {"computed_tokens", result.computed_tokens},
                {"reused_tokens", result.reused_tokens},
                {"draft_tokens", result.draft_tokens},
                {"accepted_tokens", result.accepted_tokens},
                {"forgotten_turns", chat_.forgotten()},
                {"finish_reason", gptcpp::finish_name(result.finish)}}
        .dump(-1, ' ', false, json::error_handler_t::replace);
  }

  gptcpp::GenerateOptions options_;
  gptcpp::Context context_;
  gptcpp::Chat chat_;
  uint64_t number_ = 0;  // number of responses so far
};

}  // namespace

std::unique_ptr<ChatPartner> make_local_partner(const ChatArguments& arguments) {
  return std::make_unique<LocalPartner>(arguments);
}

}  // namespace gpt

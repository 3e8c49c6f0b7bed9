#include <algorithm>

#include "api/objects.h"
#include "chat/conversation.h"

namespace gptcpp {
namespace {

constexpr int64_t kStepRows = 512;  // ids that go through the model between two looks at `cancelled`

gpt::ContextPolicy inner(ContextPolicy policy) {
  switch (policy) {
    case ContextPolicy::crop:
      return gpt::ContextPolicy::crop;
    case ContextPolicy::slide:
      return gpt::ContextPolicy::slide;
    case ContextPolicy::stop:
      break;
  }
  return gpt::ContextPolicy::stop;
}

DecoderOptions decoder_options(const SessionOptions& o) {
  return {
      .n_ctx = o.n_ctx, .dtype = o.dtype, .kv_dtype = o.kv_dtype, .slide = o.policy == ContextPolicy::slide};
}

// Takes an event into the result and shows it; whether the text goes on.
bool take_event(const gpt::Event& event, PieceStream& stream, const OnPiece& on_piece, Result& result) {
  if (event.finish == gpt::FinishReason::error) throw gpt::Error(std::string(event.error));
  const bool ends = ends_text(event);
  const std::string text = stream.push(event);
  if (!ends) result.ids.push_back(event.id);
  if (event.finish) result.finish = finish_of(*event.finish);
  result.text += text;
  const bool shown = on_piece && !(ends && text.empty());
  const bool goes_on = !shown || call_back(on_piece, Piece{ends ? -1 : event.id, text});
  if ((goes_on && !stream.stopped()) || ends) return true;
  result.finish = Finish::stop;
  return false;
}

// Goes on with a request alone. What a call that throws had drawn is in `result`.
void generate(Decoder& decoder, gpt::Request request, PieceStream& stream, const OnPiece& on_piece,
              Result& result) {
  gpt::Engine engine(decoder.cached, {.step_rows = kStepRows});
  const int64_t id = as_argument("prompt", [&] { return engine.submit(std::move(request)); });
  while (!engine.idle()) {
    decoder.model().context->check_cancelled();
    for (const gpt::Event& event : engine.step()) {
      if (!take_event(event, stream, on_piece, result)) engine.cancel(id);
    }
  }
}

}  // namespace

struct Session::Impl {
  Impl(const Model& model, const SessionOptions& options)
      : decoder(model.impl(), decoder_options(options)), policy(inner(options.policy)) {}

  std::vector<int32_t> opening(std::string_view text) const {
    if (ids.empty()) return decoder.model().text_ids(text);
    return decoder.model().tokenizer().encode(text);
  }

  Decoder decoder;
  gpt::ContextPolicy policy;
  std::vector<int32_t> ids;
  std::vector<float> logits;
};

Session::Session(const Model& model, const SessionOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, options); })) {}

void Session::feed(std::string_view text) {
  if (text.empty()) return;
  const auto ids = as_argument("text", [&] { return impl_->opening(text); });
  impl_->ids.insert(impl_->ids.end(), ids.begin(), ids.end());
}

void Session::feed(std::span<const int32_t> ids) {
  const int64_t vocab_size = impl_->decoder.model().config().vocab_size;
  guarded([&] {
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocab_size)
        gpt::fail_parameter("ids", "expected token ids from 0 to {}, found {}", vocab_size - 1, id);
    }
    impl_->ids.insert(impl_->ids.end(), ids.begin(), ids.end());
  });
}

Result Session::generate(const GenerateOptions& options, const OnPiece& on_piece) {
  return guarded([&] {
    std::vector<int32_t>& ids = impl_->ids;
    const Decoder& decoder = impl_->decoder;
    PieceStream stream(decoder.model(), options.stops);
    gpt::Request request = decoder.request(ids.empty() ? impl_->opening("") : ids, options);
    request.context = impl_->policy;
    ids = request.prompt;
    Result result;
    struct Append {
      ~Append() { ids.insert(ids.end(), drawn.begin(), drawn.end()); }
      std::vector<int32_t>& ids;
      const std::vector<int32_t>& drawn;
    } append{ids, result.ids};
    gptcpp::generate(impl_->decoder, std::move(request), stream, on_piece, result);
    return Result(result);  // a copy: `append` reads it
  });
}

std::span<const float> Session::logits() {
  return guarded([&] {
    Impl& s = *impl_;
    gpt::CachedModel& cached = s.decoder.cached;
    as_argument("ids", [&] { gpt::check_prompt(cached, s.ids, s.policy, "the text"); });
    const std::span<const int32_t> ids = gpt::opening_ids(cached, s.ids, s.policy);
    s.logits.resize(static_cast<size_t>(cached.vocab_size()));
    cached.reset(0);
    for (auto at = static_cast<size_t>(cached.reuse(0, ids)); at < ids.size();) {
      s.decoder.model().context->check_cancelled();
      const auto n =
          std::min({ids.size() - at, static_cast<size_t>(kStepRows), static_cast<size_t>(cached.room(0))});
      const gpt::SequenceModel::Append append{0, ids.subspan(at, n), at + n == ids.size()};
      cached.forward({&append, 1}, gpt::make_view(s.logits.data(), {1, cached.vocab_size()}));
      at += n;
    }
    return std::span<const float>(s.logits);
  });
}

const std::vector<int32_t>& Session::ids() const noexcept {
  return impl_->ids;
}

void Session::truncate(size_t size) {
  guarded([&] {
    if (size > impl_->ids.size())
      gpt::fail_parameter("size", "expected 0 to {}, the ids there are, found {}", impl_->ids.size(), size);
    impl_->ids.resize(size);
  });
}

std::vector<int32_t> chat_prompt(const Model& model, std::span<const Message> messages) {
  return as_argument("messages", [&] {
    std::vector<gpt::ChatMessage> inner_messages;
    for (const Message& message : messages)
      inner_messages.push_back({message.role, message.content});
    return gpt::ChatTemplate(model.impl()->chat_format(), model.impl()->tokenizer())
        .encode(inner_messages, true);
  });
}

struct Chat::Impl {
  Impl(const Model& model, const std::string& system, const SessionOptions& options)
      : format(model.impl()->chat_format()),
        chat_template(format, model.impl()->tokenizer()),
        decoder(model.impl(), decoder_options(options)),
        conversation(chat_template, system, decoder.inference.capacity()) {
    if (chat_template.end_id() >= decoder.model().config().vocab_size)
      gpt::fail("the tokenizer's end of a message is token {}, which the model does not have",
                chat_template.end_id());
  }

  gpt::ChatFormat format;
  gpt::ChatTemplate chat_template;
  Decoder decoder;
  gpt::Conversation conversation;
};

Chat::Chat(const Model& model, const std::string& system, const SessionOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, system, options); })) {}

Result Chat::say(const std::string& message, const GenerateOptions& options, const OnPiece& on_piece) {
  return guarded([&] {
    Impl& c = *impl_;
    PieceStream stream(c.decoder.model(), options.stops, gpt::blank_before_answers(c.format));
    gpt::Request request = c.decoder.request({}, options);
    request.prompt = as_argument("message", [&] { return c.conversation.ask(message, options.max_tokens); });
    request.eos_ids.push_back(c.chat_template.end_id());
    Result result;
    struct Answer {
      ~Answer() { conversation.answer(drawn); }
      gpt::Conversation& conversation;
      const std::vector<int32_t>& drawn;
    } answer{c.conversation, result.ids};
    generate(c.decoder, std::move(request), stream, on_piece, result);
    return Result(result);  // a copy: `answer` reads it
  });
}

void Chat::reset() {
  impl_->conversation.reset();
}

}  // namespace gptcpp

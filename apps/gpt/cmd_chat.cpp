#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/parse.h"
#include "chat/conversation.h"
#include "command.h"
#include "generation.h"
#include "infer/cached_model.h"
#include "infer/engine.h"
#include "input.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kFooter = R"(Examples:
  gpt chat model
  gpt chat model.gguf --system "Answer in one sentence." --temperature 0.6 --dtype q8_0
  gpt chat model "What is a GPT?"
  gpt chat model --template chatml --greedy
  printf 'What is a GPT?\nAnd how is it trained?\n' | gpt chat model --json

The model's own chat template says how messages become tokens; --template names the format of a model that has
none. One line is one message, whatever special tokens it names. Commands, alone on a line:
  /reset   forget the conversation
  /exit    end, like Ctrl-D
  /help    say this
Ctrl-C ends an answer. When the context is full the oldest turns are forgotten, the system message never.
From a pipe every line is a message and every answer ends in a newline; with --json it is an object a line.
MESSAGE is answered first; without a terminal nothing else is read then.)";

constexpr int64_t kUsualContext = 8192;  // a cache for more is made only where somebody asks for it

struct ChatArguments {
  GenerateArguments generate;
  std::string system, format, message;
  int64_t n_ctx = 0;  // 0: the model's, at most kUsualContext
};

std::unique_ptr<Tokenizer> tokenizer_for(const LoadedModel& loaded, const ChatArguments& a) {
  auto tokenizer = chosen_tokenizer(loaded, a.generate.tokenizer);
  if (tokenizer == nullptr) fail("{} has no tokenizer; name one with --tokenizer", a.generate.model);
  return tokenizer;
}

int64_t context_of(const ModelConfig& config, const ChatArguments& a) {
  if (a.n_ctx < 0 || a.n_ctx > config.n_ctx)
    fail_usage("--n-ctx: expected 1 to {}, which is what the model has, found {}", config.n_ctx, a.n_ctx);
  return a.n_ctx > 0 ? a.n_ctx : std::min(config.n_ctx, kUsualContext);
}

Inference::Options inference_options(const GenerateArguments& a, int64_t n_ctx) {
  Inference::Options options;
  options.capacity = n_ctx;
  options.slots = 1;
  set_types(options, a);
  options.max_rows = std::min(options.max_rows, n_ctx);
  return options;
}

class Chat {
 public:
  explicit Chat(const ChatArguments& a)
      : a_(a),
        machine_(a.generate.machine),
        loaded_(a.generate.model, std::nullopt, MatrixOrder::as_stored),
        format_(model_chat_format(loaded_, a.format, "--template")),
        tokenizer_(tokenizer_for(loaded_, a)),
        template_(format_, *tokenizer_),
        n_ctx_(context_of(loaded_.model().config, a)),
        options_(
            generate_options(a.generate, eos_ids(loaded_.model().config), loaded_.model().config.vocab_size)),
        inference_(loaded_.model(), machine_.backend, inference_options(a.generate, n_ctx_)),
        model_(inference_, false),
        engine_(model_, {}),
        conversation_(template_, a.system, n_ctx_),
        talks_(::isatty(STDIN_FILENO) != 0 && notes_are_on_terminal() && !a.generate.json) {
    if (options_.max_tokens < 1)
      fail_usage("--max-tokens: expected 1 or more, found {}", options_.max_tokens);
    if (template_.end_id() >= loaded_.model().config.vocab_size)
      fail("the tokenizer's end of a message is token {}, which the model does not have", template_.end_id());
    StopStrings checked(a.generate.stops);
  }

  void run() {
    if (talks_)
      write_note(fmt::format("{} format, {} tokens of context; /help shows what else there is\n",
                             chat_format_name(format_), format_thousands(n_ctx_)));
    if (!a_.message.empty()) take_message(a_.message);
    if (a_.message.empty() || talks_) talk();
  }

 private:
  void talk() {
    prompt();
    for_each_input_lines([&](std::string_view lines, int64_t first) {
      for (const std::string_view line : lines_of(lines)) {
        take_line(line, first++);
        if (ended_) break;
        prompt();
      }
      return !ended_;
    });
    if (talks_ && !ended_) write_note("\n");  // Ctrl-D leaves the prompt on its line
  }

  void prompt() const {
    if (talks_) write_note("> ");
  }

  void take_line(std::string_view line, int64_t number) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || is_command(line)) return;
    take_message(std::string(line), fmt::format("standard input:{}: ", number));
  }

  void take_message(const std::string& message, const std::string& place = "") {
    try {
      answer(message);
    } catch (const Error& error) {
      if (!talks_) fail("{}{}", place, error.what());
      write_note(fmt::format("{}\n", error.what()));
    }
  }

  bool is_command(std::string_view line) {
    if (line == "/exit" || line == "/quit") {
      ended_ = true;
    } else if (line == "/reset") {
      conversation_.reset();
      if (talks_) write_note("the conversation is forgotten\n");
    } else if (line == "/help") {
      write_note("/reset forgets the conversation, /exit ends; Ctrl-C ends an answer\n");
    } else if (talks_ && line.starts_with('/') && line.find_first_of(" /", 1) == std::string_view::npos) {
      write_note(
          fmt::format("{} is no command; there are /reset, /exit and /help\n", printable_text(line, 40)));
    } else {
      return false;
    }
    return true;
  }

  // The answer so far, as its tokens arrive.
  struct Answer {
    TextStream text;
    std::string shown;
    std::vector<int32_t> ids;  // without the one that ended it
    FinishReason finish = FinishReason::length;
    bool interrupted = false;
  };

  void answer(const std::string& message) {
    if (const auto bad = first_invalid_utf8(message)) fail("the message is not valid UTF-8 at byte {}", *bad);
    const auto begin = Clock::now();
    const std::vector<int32_t> prompt = conversation_.ask(message, options_.max_tokens);
    if (conversation_.forgotten() > 0) {
      write_note(fmt::format("note: the context of {} tokens is full; the oldest turns ({}) are forgotten\n",
                             format_thousands(n_ctx_), conversation_.forgotten()));
    }
    const Engine::Counts before = engine_.counts();
    Answer answer{.text = {*tokenizer_, a_.generate.stops, blank_before_answers(format_)}};
    {
      std::optional<QuietInterrupt> interrupt;
      if (talks_) interrupt.emplace();
      generate(prompt, answer);
      answer.interrupted = interrupted();
    }
    ++number_;
    add_text(answer, answer.text.finish());
    const bool full = std::ssize(prompt) + std::ssize(answer.ids) >= n_ctx_;
    const Engine::Counts now = engine_.counts();
    conversation_.answer(answer.ids);
    if (a_.generate.json) {
      write_output(json{{"text", answer.shown},
                        {"ids", answer.ids},
                        {"prompt_ids", prompt},
                        {"computed_tokens", now.computed - before.computed},
                        {"reused_tokens", now.reused - before.reused},
                        {"forgotten_turns", conversation_.forgotten()},
                        {"finish_reason", finish_reason_name(answer.finish)}}
                       .dump(-1, ' ', false, json::error_handler_t::replace) +
                   "\n");
      return;
    }
    write_output("\n");
    if (full) write_note("note: the context is full, the answer was cut\n");
    const double seconds = seconds_since(begin);
    if (talks_)
      write_note(fmt::format("({}, {} tokens/s)\n", format_amount(std::ssize(answer.ids), "token"),
                             format_rate(static_cast<double>(answer.ids.size()) / std::max(seconds, 1e-9))));
  }

  void generate(const std::vector<int32_t>& prompt, Answer& answer) {
    const int64_t request = engine_.submit({.prompt = prompt,
                                            .max_tokens = options_.max_tokens,
                                            .sampling = options_.sampling,
                                            .seed = options_.seed,
                                            .number = number_,
                                            .eos_ids = options_.eos_ids,
                                            .stop_ids = {template_.end_id()},
                                            .context = ContextPolicy::stop});
    while (!engine_.idle()) {
      for (const Event& event : engine_.step()) {
        if (event.finish == FinishReason::error) throw Error(std::string(event.error));
        const bool end = event.finish == FinishReason::eos || event.finish == FinishReason::stop;
        if (event.finish) answer.finish = *event.finish;
        if (end) continue;
        answer.ids.push_back(event.id);
        add_text(answer, answer.text.push(event.id));
      }
      if (!interrupted() && !answer.text.stopped()) continue;
      answer.finish = FinishReason::stop;
      engine_.cancel(request);
    }
  }

  void add_text(Answer& answer, const std::string& piece) {
    if (!a_.generate.json) show_text(piece);
    answer.shown += piece;
  }

  const ChatArguments& a_;
  Machine machine_;
  LoadedModel loaded_;
  ChatFormat format_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ChatTemplate template_;
  int64_t n_ctx_;
  GenerateOptions options_;
  Inference inference_;
  CachedModel model_;
  Engine engine_;
  Conversation conversation_;
  bool talks_;  // with somebody at a terminal
  bool ended_ = false;
  uint64_t number_ = 0;  // of answers
};

}  // namespace

Command add_chat_command(CLI::App& root) {
  auto a = std::make_shared<ChatArguments>();
  a->generate.max_tokens = 512;
  CLI::App* app = add_command(root, "chat", "talk with a model, one line a message", kFooter);
  app->add_option("-m,--model,MODEL", a->generate.model, "model folder, run folder or .gguf");
  add_value(*app, "-p,--prompt,MESSAGE", a->message, "TEXT", "first message");
  add_value(*app, "--system", a->system, "TEXT", "system message");
  add_value(*app, "--template", a->format, "nanochat|chatml|chatml-qwen2|llama3|llama2",
            "format of the conversation (the model's)");
  add_value(*app, "--tokenizer", a->generate.tokenizer, "FILE", "instead of the model's");
  add_value(*app, "--n-ctx", a->n_ctx, "N",
            fmt::format("tokens of context (the model's, at most {})", kUsualContext));
  add_shown(*app, "-n,--max-tokens", a->generate.max_tokens, "N", "most tokens of an answer");
  add_repeated(*app, "--stop", a->generate.stops,
               "end an answer before this text; may be given several times")
      ->type_name("TEXT");
  add_sampling_options(*app, a->generate);
  add_weight_options(*app, a->generate);
  add_json_option(*app, a->generate.json);
  add_machine_options(*app, a->generate.machine);
  return {app, [a] {
            require_argument(a->generate.model, "MODEL", "chat");
            Chat(*a).run();
            return 0;
          }};
}

}  // namespace gpt

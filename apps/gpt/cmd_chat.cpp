#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "chat_partner.h"
#include "command.h"
#include "input.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr const char* kChatFooter = R"(Examples:
  gpt chat model
  gpt chat model.gguf --system "Answer in one sentence." --temperature 0.6 --dtype q8_0
  gpt chat model "What is a GPT?"
  gpt chat http://127.0.0.1:8080                  an OpenAI-compatible server, such as gpt serve
  gpt chat model --template chatml --greedy
  printf 'What is a GPT?\nAnd how is it trained?\n' | gpt chat model --json

The model's chat template formats the messages. --template selects a different template, for example for a model
without one. Each line is one message. Names of special tokens in a message are ordinary text. Commands, alone on a line:
  /reset   start a new conversation
  /exit    exit, like Ctrl-D
  /help    show this list
Ctrl-C stops a response. When the context is full, the oldest turns are dropped, but never the system message.
If standard input is a pipe, every line is a message and every response ends with a newline; with --json, every response is a
JSON object on one line. MESSAGE is the first message; without a terminal, it is the only one.)";

ChatPartner* answering = nullptr;  // the partner that Ctrl-C cancels

// Returns true if `model` looks like HOST:PORT and no such file exists.
bool lacks_scheme(const std::string& model) {
  const size_t colon = model.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == model.size() || std::filesystem::exists(model))
    return false;
  return model.find('/') > colon && model.find_first_not_of("0123456789", colon + 1) == std::string::npos;
}

std::unique_ptr<ChatPartner> make_partner(const ChatArguments& a) {
  if (a.generate.options.max_tokens < 1)
    fail_usage("--max-tokens: expected 1 or more, found {}", a.generate.options.max_tokens);
  if (lacks_scheme(a.generate.model))
    fail_usage("cannot find a model {0}; for a server, write http://{0}", a.generate.model);
  return is_server(a.generate.model) ? make_remote_partner(a) : make_local_partner(a);
}

class Chat {
 public:
  explicit Chat(const ChatArguments& a)
      : a_(a),
        partner_(make_partner(a)),
        talks_(::isatty(STDIN_FILENO) != 0 && notes_are_on_terminal() && !a.generate.json) {
    answering = partner_.get();
  }

  void run() {
    if (talks_) write_note(partner_->greeting() + "; /help lists the commands\n");
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
    if (talks_ && !ended_) write_note("\n");  // moves the cursor off the line of the prompt after Ctrl-D
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
    } catch (const std::runtime_error& error) {  // thrown by this program or by the library
      if (!talks_) fail("{}{}", place, error.what());
      // The message may come from a server, so control characters are made visible.
      write_note(visible_text(error.what()) + "\n");
    }
  }

  bool is_command(std::string_view line) {
    if (line == "/exit" || line == "/quit") {
      ended_ = true;
    } else if (line == "/reset") {
      partner_->reset();
      if (talks_) write_note("started a new conversation\n");
    } else if (line == "/help") {
      write_note("/reset starts a new conversation, /exit exits, Ctrl-C stops a response\n");
    } else if (talks_ && line.starts_with('/') && line.find_first_of(" /", 1) == std::string_view::npos) {
      write_note(
          fmt::format("unknown command {}; expected /reset, /exit or /help\n", printable_text(line, 40)));
    } else {
      return false;
    }
    return true;
  }

  void answer(const std::string& message) {
    if (const auto bad = first_invalid_utf8(message)) fail("the message is not valid UTF-8 at byte {}", *bad);
    const auto begin = Clock::now();
    const ChatPartner::Answer answer = say(message);
    if (a_.generate.json) return show_json(answer.record + "\n");
    write_output("\n");
    if (answer.was_cut) write_note("note: the context is full, so the response was cut\n");
    const double seconds = seconds_since(begin);
    if (talks_)
      write_note(fmt::format("({}, {} tokens/s{})\n", format_amount(answer.tokens, "token"),
                             format_rate(static_cast<double>(answer.tokens) / std::max(seconds, 1e-9)),
                             answer.note));
  }

  ChatPartner::Answer say(const std::string& message) {
    std::optional<QuietInterrupt> interrupt;
    if (talks_) interrupt.emplace([] { answering->cancel(); });
    return partner_->say(message, [&](const std::string& text) {
      if (!a_.generate.json) show_text(text);
    });
  }

  const ChatArguments& a_;
  std::unique_ptr<ChatPartner> partner_;
  bool talks_;  // true if the user types at a terminal
  bool ended_ = false;
};

}  // namespace

Command add_chat_command(CLI::App& root) {
  auto a = std::make_shared<ChatArguments>();
  a->generate.options.max_tokens = 512;
  CLI::App* app = add_command(root, "chat", "chat with a model; each line is a message", kChatFooter);
  add_model_option(*app, a->generate.model, "Model folder, run folder, .gguf file or http://HOST:PORT");
  add(*app,
      {.flags = "-p,--prompt,MESSAGE", .value = "TEXT", .help = "First message", .aliases = "--start|--text"},
      a->message);
  add(*app,
      {.flags = "--system",
       .value = "TEXT",
       .help = "System message",
       .aliases = "--system-prompt|-sys",
       .common = true},
      a->system);
  add_template_option(*app, a->format, "the model's chat template");
  add_tokenizer_option(*app, a->generate.tokenizer);
  add(*app,
      {.flags = "--n-ctx",
       .value = "N",
       .help = "Context length in tokens",
       .fallback = "the model's, at most 8192"},
      a->n_ctx);
  add(*app,
      {.flags = "-n,--max-tokens",
       .value = "N",
       .help = "Maximum length of a response in tokens",
       .aliases = kMaxTokensAliases,
       .common = true},
      a->generate.options.max_tokens);
  add_stop_option(*app, a->generate.options.stops);
  add(*app,
      {.flags = "--api-key-file",
       .value = "FILE",
       .help = "File with the API key of a server",
       .fallback = "the variable OPENAI_API_KEY",
       .kind = ValueKind::path},
      a->key_file);
  add(*app,
      {.flags = "--server-model",
       .value = "NAME",
       .help = "Name of the model on a server",
       .fallback = "the server's first model"},
      a->server_model);
  add_sampling_options(*app, a->generate);
  add_weight_options(*app, a->generate);
  add_adapter_option(*app, a->generate.adapters);
  add_speculation_options(*app, a->generate);
  add_json_option(*app, a->generate.json);
  add_machine_options(*app, a->generate.machine);
  return {app, [a] {
            require_argument(a->generate.model, "MODEL", "chat");
            Chat(*a).run();
            return 0;
          }};
}

}  // namespace gpt

#include "chat/chat_examples.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "chat/chat_conversations.h"

namespace gpt {
namespace {

int64_t counted(const ChatExample& example) {
  return std::ranges::count(example.weights, uint8_t{1});
}

// Returns the names of the functions that the assistant calls in a conversation.
std::vector<std::string> called_functions(const nlohmann::ordered_json& conversation) {
  std::vector<std::string> names;
  for (const auto& message : conversation["messages"]) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (const auto& call : *calls)
      names.push_back(call["function"]["name"].get<std::string>());
  }
  return names;
}

// Explains why a conversation has no token to train on.
std::string nothing_counts(const nlohmann::ordered_json& conversation) {
  int64_t answers = 0, weighted = 0;
  for (const auto& message : conversation["messages"]) {
    if (message["role"] != "assistant") continue;
    ++answers;
    weighted += message.value("weight", nlohmann::ordered_json(1)) != 0 ? 1 : 0;
  }
  if (answers == 0) return "it has no message of the assistant";
  if (weighted == 0)
    return fmt::format("\"weight\" is 0 in {}",
                       format_amount(answers, "message of the assistant", "messages of the assistant"));
  return "the chat template leaves out the messages of the assistant";
}

class Reader {
 public:
  Reader(const ChatTemplate& chat, const ChatExampleOptions& options) : chat_(chat), options_(options) {
    if (options.n_ctx < 1) fail_parameter("n_ctx", "expected 1 or more, found {}", options.n_ctx);
  }

  void take(std::string_view line, const std::string& place) {
    out_.counts.lines += 1;
    try {
      add(parse_conversation(line, place), place);
    } catch (const TooManyIds&) {
      throw;
    } catch (const Error& error) {
      if (!options_.skip_bad) throw;
      if (out_.counts.bad++ == 0) out_.counts.first_bad = error.what();
    }
  }
  ChatExamples finish() { return std::move(out_); }

 private:
  // Thrown for a conversation that is too long. Such a conversation is not invalid, so skip_bad does not
  // suppress this error.
  struct TooManyIds : Error {
    using Error::Error;
  };

  ChatExample encoded(const nlohmann::ordered_json& conversation, const std::string& place) const {
    try {
      return chat_.example(conversation);
    } catch (const Error& error) {
      fail_because(error, "{}: {}", place, error.what());
    }
  }

  void add(nlohmann::ordered_json conversation, const std::string& place) {
    ChatExample example = encoded(conversation, place);
    require_calls_written(conversation, example, chat_, place);
    if (!fits(example) && options_.too_long == TooLong::error)
      throw TooManyIds(fmt::format(
          "{}: the conversation has {}, expected at most {} (context length plus one); raise the context "
          "length, or drop or truncate long conversations",
          place, format_amount(std::ssize(example.ids), "token"), format_thousands(options_.n_ctx + 1)));
    bool shorter = false;
    while (!fits(example) && options_.too_long == TooLong::truncate && drop_oldest_turn(conversation)) {
      example = encoded(conversation, place);
      shorter = true;
    }
    if (!fits(example)) {
      out_.counts.dropped += 1;
      return;
    }
    const int64_t n = counted(example);
    if (n == 0) fail("{}: the conversation has nothing to train on: {}", place, nothing_counts(conversation));
    out_.counts.truncated += shorter ? 1 : 0;
    out_.counts.ids += std::ssize(example.ids);
    out_.counts.counted += n;
    out_.examples.push_back(std::move(example));
  }
  bool fits(const ChatExample& example) const { return std::ssize(example.ids) <= options_.n_ctx + 1; }

  const ChatTemplate& chat_;
  const ChatExampleOptions& options_;
  ChatExamples out_;
};

}  // namespace

// A template that does not support tools would train the model to write nothing where it should call a
// function.
void require_calls_written(const nlohmann::ordered_json& conversation, const ChatExample& example,
                           const ChatTemplate& chat, const std::string& place) {
  const std::vector<std::string> names = called_functions(conversation);
  if (names.empty()) return;
  std::string text;
  for (const int32_t id : example.ids)
    text += chat.tokenizer().token_bytes(id);
  for (const std::string& name : names) {
    if (text.find(name) == std::string::npos)
      fail(
          "{}: the assistant calls {}, but the chat template ({}) does not support tool calls; use a .jinja "
          "file that supports them, or leave such conversations out",
          place, printable(name), chat.name());
  }
}

ChatExamples parse_chat_examples(std::string_view jsonl, const std::string& name, const ChatTemplate& chat,
                                 const ChatExampleOptions& options) {
  Reader reader(chat, options);
  refuse_json_list(jsonl, name);
  int64_t number = 0;
  for (const std::string_view line : lines_of(jsonl)) {
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      reader.take(line, fmt::format("{}:{}", name, number));
  }
  return reader.finish();
}

std::string preview_chat_example(const ChatExample& example, const Tokenizer& tokenizer, bool colour) {
  const char* const begin = colour ? "\x1b[32m" : "«";
  const char* const end = colour ? "\x1b[0m" : "»";
  std::string out;
  for (size_t at = 0; at < example.ids.size();) {
    size_t stop = at;
    std::string bytes;
    for (; stop < example.ids.size() && example.weights[stop] == example.weights[at]; ++stop)
      bytes += tokenizer.token_bytes(example.ids[stop]);
    std::string text;
    for (const std::string_view line :
         split(bytes, '\n')) {  // control characters must not reach the terminal
      if (line.data() != bytes.data()) text += '\n';
      text += printable_text(line, std::ssize(bytes));
    }
    out += example.weights[at] != 0 ? begin + text + end : text;
    at = stop;
  }
  if (!out.ends_with('\n')) out += '\n';
  return out + fmt::format("loss on {} of {}\n", format_thousands(counted(example)),
                           format_amount(std::ssize(example.ids), "token"));
}

}  // namespace gpt

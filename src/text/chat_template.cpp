#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/common_prefix.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/jinja/python_text.h"

namespace gpt {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Returns true if the tokenizer has the special token `name`. A char tokenizer that lacks a letter of the
// name throws Error in encode_special().
bool has_special(const Tokenizer& tokenizer, const std::string& name) {
  try {
    return tokenizer.encode_special(name).size() == 1;
  } catch (const Error&) {
    return false;
  }
}

// Returns a hint on how to give a model the special tokens of a built-in format.
std::string way_to_tokens(const std::string& format, const Tokenizer& tokenizer) {
  if (tokenizer.kind() != "byte" && tokenizer.kind() != "char")
    return fmt::format("run gpt finetune --task chat --template {} to add it to the model", format);
  return fmt::format(
      "byte and character tokenizers have no special tokens, so train a model with a different tokenizer: "
      "gpt tokenizer train --special-tokens {}",
      format == "chatml-qwen2" ? "chatml"
      : format == "llama2"     ? "'<s>' '</s>'"
                               : format);
}

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

void check_messages(const OrderedJson& conversation) {
  const auto messages = conversation.is_object() ? conversation.find("messages") : conversation.end();
  if (!conversation.is_object() || messages == conversation.end() || !messages->is_array())
    fail("a conversation: expected an object with a list \"messages\"");
  for (size_t i = 0; i < messages->size(); ++i) {
    const OrderedJson& message = (*messages)[i];
    if (!message.is_object()) fail("message {}: expected an object", i + 1);
    const OrderedJson role = message.value("role", OrderedJson());
    const std::string found = role.is_string() ? role.get<std::string>() : role.dump();
    if (std::ranges::find(kRoles, found) == std::end(kRoles))
      fail("message {}: expected the role {}, found \"{}\"", i + 1,
           format_choices(std::vector<std::string>(std::begin(kRoles), std::end(kRoles))),
           printable_text(found, 32));
  }
}

// Copies the reasoning text of a message to the newer key names, as transformers does.
void add_reasoning_names(OrderedJson& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    const OrderedJson reasoning = *found;
    message["reasoning_content"] = reasoning;
    if (!message.contains("thinking")) message["thinking"] = reasoning;
    return;
  }
}

// Sets missing contents of assistant messages to empty strings. A message with tool calls often has no
// content. Returns false if no content was missing.
bool fill_content(OrderedJson& messages) {
  bool filled = false;
  for (OrderedJson& message : messages) {
    if (message["role"] != "assistant" || !message.value("content", OrderedJson()).is_null()) continue;
    message["content"] = "";
    filled = true;
  }
  return filled;
}

OrderedJson conversation_of(std::span<const ChatMessage> messages) {
  OrderedJson list = OrderedJson::array();
  for (const ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return {{"messages", std::move(list)}};
}

// Returns the range from the first to the last byte of a message in a rendered text.
std::optional<TextRange> range_of(const JinjaText& text, size_t message) {
  std::optional<TextRange> range;
  for (const JinjaSpan& span : text.spans) {
    if (span.origin != static_cast<int32_t>(message)) continue;
    range = TextRange{range ? range->begin : span.begin, span.end};
  }
  return range;
}

// Returns the position up to which `text` contains bytes of the first `messages` messages. Only bytes before
// `limit` are considered.
size_t end_of_messages(const JinjaText& text, size_t messages, size_t limit) {
  size_t end = 0;
  for (const JinjaSpan& span : text.spans) {
    if (span.origin >= 0 && span.origin < static_cast<int32_t>(messages) && span.end <= limit) end = span.end;
  }
  return end;
}

// A byte range that a generation block rendered, and the index of its assistant message.
struct GeneratedRange {
  TextRange bytes;
  size_t message;
};

// Returns the byte ranges of all generation blocks. A block belongs to the assistant message whose content it
// renders. If a block renders no content of an assistant message, it belongs to the next assistant message.
std::vector<GeneratedRange> generated_ranges(const JinjaText& text, const OrderedJson& messages) {
  const auto is_assistant = [&](size_t message) { return messages[message]["role"] == "assistant"; };
  std::vector<GeneratedRange> ranges;
  size_t next = 0;  // the first message that has no bytes yet
  for (const JinjaSpan& span : text.spans) {
    if (span.origin >= 0) next = std::max(next, static_cast<size_t>(span.origin) + 1);
    if (!span.generated) continue;
    if (ranges.empty() || ranges.back().bytes.end != span.begin)
      ranges.push_back({{span.begin, span.begin}, next});
    GeneratedRange& range = ranges.back();
    range.bytes.end = span.end;
    if (span.origin >= 0 && is_assistant(static_cast<size_t>(span.origin)))
      range.message = static_cast<size_t>(span.origin);
  }
  for (GeneratedRange& range : ranges) {
    while (range.message < messages.size() && !is_assistant(range.message))
      ++range.message;
    range.message = std::min(range.message, messages.size() - 1);
  }
  return ranges;
}

void count(ChatExample& example, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    example.weights[i] = 1;
}

constexpr const char* kQuestion = "question";
constexpr const char* kAnswer = "answer";

// Returns the text at the end of the last message. This is the content, or the text of the last content part
// that has a text. Returns null if the message has no text.
OrderedJson* last_text(OrderedJson& messages) {
  if (messages.empty() || !messages.back().contains("content")) return nullptr;
  OrderedJson& content = messages.back()["content"];
  if (content.is_string()) return &content;
  if (!content.is_array()) return nullptr;
  const auto has_text = [](const OrderedJson& part) {
    return part.is_object() && part.value("text", OrderedJson()).is_string();
  };
  const auto part = std::find_if(content.rbegin(), content.rend(), has_text);
  return part == content.rend() ? nullptr : &(*part)["text"];
}

OrderedJson parts_of_text(const std::string& text) {
  return OrderedJson::array({{{"type", "text"}, {"text", text}}});
}

// Converts the content of a message to the type that the template supports.
void fit_content(OrderedJson& message, bool as_text, bool as_parts, size_t index) {
  const auto content = message.find("content");
  if (content == message.end()) return;
  if (as_text && content->is_array()) *content = joined_parts(*content, fmt::format("message {}", index + 1));
  if (as_parts && content->is_string()) *content = parts_of_text(*content);
}

}  // namespace

// Joins content parts as llama.cpp and vLLM do for templates that only support strings.
std::string joined_parts(const OrderedJson& parts, const std::string& place) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const OrderedJson& part = parts[i];
    const std::string here = fmt::format("{}: part {} of \"content\"", place, i + 1);
    if (!part.is_object()) fail("{}: expected an object, found {}", here, json_kind(part));
    const OrderedJson type = part.value("type", OrderedJson()), words = part.value("text", OrderedJson());
    if (type != "text")
      fail("{}: expected the type \"text\", found {}", here, printable_text(type.dump(), 32));
    if (!words.is_string()) fail("{}: expected \"text\" to be a string, found {}", here, json_kind(words));
    text += (i > 0 ? "\n" : "") + words.get<std::string>();
  }
  return text;
}

ChatTemplate::ChatTemplate(const ChatSource& source, const Tokenizer& tokenizer)
    : source_(source), expects_content_(is_built_in(source.jinja)), tokenizer_(tokenizer) {
  for (const std::string& name : source.needed_tokens) {
    if (!has_special(tokenizer, name))
      fail("the chat format {} requires the special token {}, which this tokenizer (kind {}) lacks; {}",
           source.name, name, tokenizer.kind(), way_to_tokens(source.name, tokenizer));
  }
  const SpecialIds ids = tokenizer.special_ids();
  const std::pair<const char*, int64_t> named[] = {
      {"bos_token", ids.bos}, {"eos_token", ids.eos}, {"unk_token", ids.unk}, {"pad_token", ids.pad}};
  for (const auto& [name, id] : named) {
    const auto known = [&name = name](const auto& token) { return token.first == name; };
    if (id >= 0 && id < tokenizer.vocab_size() && std::ranges::none_of(source_.tokens, known))
      source_.tokens.emplace_back(name, tokenizer.token_bytes(static_cast<int32_t>(id)));
  }
  runner_ = runner_of(source.jinja);
  if (source.others.contains(kToolTemplate)) tool_runner_ = runner_of(tool_jinja());
  find_end();
}

const std::string& ChatTemplate::tool_jinja() const {
  const auto found = source_.others.find(kToolTemplate);
  return found == source_.others.end() ? source_.jinja : found->second;
}

ChatTemplates ChatTemplate::templates() const {
  ChatTemplates all = source_.others;
  all[kDefaultTemplate] = source_.jinja;
  return all;
}

ChatTemplate::Runner ChatTemplate::runner_of(const std::string& jinja) const {
  JinjaTemplate program(jinja, {}, source_.name);
  const Contents contents = contents_of(program);
  return {std::move(program), contents};
}

// Determines which types of content the template supports. Renders a conversation of one message for each
// type.
ChatTemplate::Contents ChatTemplate::contents_of(const JinjaTemplate& jinja) const {
  const auto writes = [&](const OrderedJson& content) {
    const OrderedJson conversation = {
        {"messages", OrderedJson::array({{{"role", "user"}, {"content", content}}})}};
    try {
      const std::string text = jinja.render(context_of(conversation, true));
      const bool as_data = text.find("'type': 'text'") != std::string::npos ||
                           text.find("\"type\": \"text\"") != std::string::npos;
      return text.find(kQuestion) != std::string::npos && !as_data;
    } catch (const Error&) {
      return false;
    }
  };
  if (!writes(parts_of_text(kQuestion))) return Contents::texts;
  return writes(kQuestion) ? Contents::both : Contents::parts;
}

JinjaText ChatTemplate::render(const OrderedJson& conversation, bool generate) const {
  check_messages(conversation);
  const auto tools = conversation.find("tools");
  const bool with_tools = tool_runner_ && tools != conversation.end() && !tools->is_null();
  const Runner& runner = with_tools ? *tool_runner_ : *runner_;
  OrderedJson context = context_of(conversation, generate);
  OrderedJson& messages = context["messages"];
  for (size_t i = 0; i < messages.size(); ++i)
    fit_content(messages[i], runner.contents == Contents::texts, runner.contents == Contents::parts, i);
  if (expects_content_) fill_content(messages);
  try {
    return runner.jinja.render_marked(context);
  } catch (const Error&) {  // maybe the template requires every content to be a string
    if (!fill_content(messages)) throw;
  }
  return runner.jinja.render_marked(context);
}

OrderedJson ChatTemplate::context_of(const OrderedJson& conversation, bool generate) const {
  OrderedJson context = {{"tools", nullptr}, {"documents", nullptr}};
  for (const auto& [name, token] : source_.tokens)
    context[name] = token;
  for (const auto& [name, value] : conversation.items()) {
    if (name.ends_with("_token"))
      fail("a conversation must not contain {}: the chat template defines the special tokens", name);
    context[name] = value;
  }
  for (OrderedJson& message : context["messages"])
    add_reasoning_names(message);
  context["add_generation_prompt"] = generate;
  return context;
}

std::vector<int32_t> ChatTemplate::ids_of(const JinjaText& text) const {
  std::vector<TextRange> trusted;
  for (const JinjaSpan& span : text.spans) {
    if (span.origin != JinjaSpan::kTemplate) continue;
    if (!trusted.empty() && trusted.back().end == span.begin) {
      trusted.back().end = span.end;
    } else {
      trusted.push_back({span.begin, span.end});
    }
  }
  return tokenizer_.encode_trusted(text.text, trusted);
}

std::vector<int32_t> ChatTemplate::encode(std::span<const ChatMessage> messages, bool generate) const {
  return encode_conversation(conversation_of(messages), generate);
}

std::vector<int32_t> ChatTemplate::encode_conversation(const OrderedJson& conversation, bool generate) const {
  return ids_of(render(conversation, generate));
}

std::vector<int32_t> ChatTemplate::encode_to_continue(const OrderedJson& conversation) const {
  check_messages(conversation);
  constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ",
                             kTrimmedTag = kTag.substr(0, kTag.size() - 1);
  OrderedJson marked = conversation;
  OrderedJson* said = last_text(marked["messages"]);
  if (said == nullptr) fail("the last message has no text to continue");
  const std::string content = *said;
  *said = content + std::string(kTag);
  const JinjaText text = render(marked, false);
  const size_t at = text.text.rfind(kTrimmedTag);
  if (at == std::string::npos || text.text.find(python_strip(content, true, true)) == std::string::npos)
    fail("{} changes the text of the last message, so the message cannot be continued", source_.name);
  if (text.text.find(kTrimmedTag) != at)
    fail("{} writes the text of the last message more than once, so the message cannot be continued",
         source_.name);
  const std::string_view before = std::string_view(text.text).substr(0, at);
  const bool trims = !std::string_view(text.text).substr(at).starts_with(kTag);
  return ids_of(text.substr(0, trims ? python_strip(before, false, true).size() : at));
}

// Returns true for a token that plain text cannot produce, and for a token that is spelled like a marker,
// such as <|im_end|>.
bool ChatTemplate::is_special(int32_t id) const {
  const std::string bytes = tokenizer_.token_bytes(id);
  const std::vector<int32_t> alone{id};
  if (tokenizer_.encode_special(bytes) != alone) return false;
  return (bytes.size() > 2 && bytes.front() == '<' && bytes.back() == '>') ||
         tokenizer_.encode(bytes) != alone;
}

// Returns the number of ids for the text before `byte`. A token that extends past this position is not
// counted.
size_t ChatTemplate::ids_before(const JinjaText& text, size_t byte, std::span<const int32_t> ids) const {
  return byte >= text.text.size() ? ids.size() : common_prefix(ids, ids_of(text.substr(0, byte)));
}

// Returns the number of ids up to and including the end token of a message. The search for the end token
// begins after the last byte of the message and ends before the next content of the conversation. If there is
// no end token in this range, the first special token in the range is used.
size_t ChatTemplate::answer_end(const JinjaText& text, size_t byte, std::span<const int32_t> ids) const {
  const size_t begin = ids_before(text, byte, ids);
  const auto next = std::ranges::find_if(text.spans, [&](const JinjaSpan& span) {
    return span.end > byte && span.origin != JinjaSpan::kTemplate;
  });
  const size_t end =
      next == text.spans.end() ? ids.size() : ids_before(text, std::max(next->begin, byte), ids);
  // Other special tokens may precede the end token, such as a token that closes a tool call.
  const auto tail = ids.subspan(begin, end - begin);
  auto last = std::ranges::find(tail, end_id_);
  if (last == tail.end()) last = std::ranges::find_if(tail, [&](int32_t id) { return is_special(id); });
  return last == tail.end() ? begin : begin + static_cast<size_t>(last - tail.begin()) + 1;
}

// Returns the position of an assistant message. The message normally starts at the end of the ids of its
// prompt. However, a template may write different text at the end of a prompt than before a response, or a
// token may cross the boundary. In both cases, the message starts at the first difference.
std::optional<ChatTemplate::AnswerPlace> ChatTemplate::answer_place(const OrderedJson& conversation,
                                                                    const JinjaText& text, size_t message,
                                                                    std::span<const int32_t> ids) const {
  const std::optional<TextRange> own = range_of(text, message);
  OrderedJson before = conversation;
  before["messages"].get_ref<OrderedJson::array_t&>().resize(message);
  try {
    const JinjaText prompt = render(before, true);
    if (!own) {
      const size_t end = prompt.text.size();
      if (!text.text.starts_with(prompt.text)) return std::nullopt;
      return AnswerPlace{ids_before(text, end, ids), end};
    }
    const size_t written = end_of_messages(text, message, own->begin),
                 asked = end_of_messages(prompt, message, prompt.text.size());
    const size_t same = common_prefix(std::string_view(text.text).substr(written),
                                      std::string_view(prompt.text).substr(asked));
    const size_t first = ids_before(text, std::min(written + same, own->begin), ids);
    const bool same_before = text.text.compare(0, written, prompt.text, 0, asked) == 0;
    return AnswerPlace{same_before ? std::min(first, common_prefix(ids, ids_of(prompt))) : first, own->end};
    // The template rejected the shortened conversation, so the message starts at its first own byte.
  } catch (const Error&) {
    if (!own) return std::nullopt;
    return AnswerPlace{ids_before(text, own->begin, ids), own->end};
  }
}

void ChatTemplate::count_message(const OrderedJson& conversation, const JinjaText& text, size_t message,
                                 ChatExample& example) const {
  const auto place = answer_place(conversation, text, message, example.ids);
  if (place) count(example, place->first_id, answer_end(text, place->end, example.ids));
}

ChatExample ChatTemplate::example(const OrderedJson& conversation) const {
  const JinjaText text = render(conversation, false);
  ChatExample out{ids_of(text), {}};
  out.weights.resize(out.ids.size());
  const OrderedJson& messages = conversation["messages"];
  const auto counts = [&](size_t message) { return messages[message].value("weight", OrderedJson(1)) != 0; };
  const std::vector<GeneratedRange> blocks = generated_ranges(text, messages);
  for (const GeneratedRange& block : blocks) {
    if (!counts(block.message)) continue;
    count(out, ids_before(text, block.bytes.begin, out.ids), ids_before(text, block.bytes.end, out.ids));
  }
  for (size_t i = 0; i < messages.size() && blocks.empty(); ++i) {
    if (messages[i]["role"] == "assistant" && counts(i)) count_message(conversation, text, i, out);
  }
  return out;
}

ChatExample ChatTemplate::response(const OrderedJson& conversation) const {
  const JinjaText text = render(conversation, false);
  ChatExample out{ids_of(text), {}};
  out.weights.resize(out.ids.size());
  count_message(conversation, text, conversation["messages"].size() - 1, out);
  return out;
}

void ChatTemplate::find_end() {
  const ChatMessage messages[] = {{"user", kQuestion}, {"assistant", kAnswer}};
  const JinjaText text = render(conversation_of(messages), false);
  const auto range = range_of(text, 1);
  const std::vector<int32_t> ids = ids_of(text);
  const size_t end = range ? answer_end(text, range->end, ids) : 0;
  if (end == 0 || !is_special(ids[end - 1]))
    fail(
        "{} writes no special token of the tokenizer (kind {}) after a response, so responses would never "
        "end",
        source_.name, tokenizer_.kind());
  end_id_ = ids[end - 1];
  const std::string prompt = render(conversation_of(std::span(messages).first(1)), true).text;
  blank_before_answers_ = text.text.starts_with(prompt) &&
                          text.text.substr(prompt.size()).starts_with(std::string(" ") + kAnswer);
}

std::optional<std::vector<int32_t>> ChatTemplate::encode_turn(std::span<const ChatMessage> before,
                                                              const std::string& user) const {
  std::vector<ChatMessage> all(before.begin(), before.end());
  all.push_back({"user", user});
  const JinjaText text = render(conversation_of(all), true), old = render(conversation_of(before), false);
  const auto range = range_of(old, before.size() - 1);
  const std::vector<int32_t> ids = ids_of(text), old_ids = ids_of(old);
  if (!range) return std::nullopt;
  const size_t end = answer_end(old, range->end, old_ids);
  if (common_prefix(ids, old_ids) < end || end == 0 || ids[end - 1] != end_id_) return std::nullopt;
  return std::vector(ids.begin() + static_cast<std::ptrdiff_t>(end), ids.end());
}

std::vector<int32_t> ChatTemplate::encode_turn(const std::string& user) const {
  const ChatMessage messages[] = {{"user", kQuestion}, {"assistant", kAnswer}};
  if (auto ids = encode_turn(messages, user)) return *std::move(ids);
  fail(
      "{} renders earlier messages differently when a new message follows, so the conversation cannot be "
      "continued",
      source_.name);
}

}  // namespace gpt

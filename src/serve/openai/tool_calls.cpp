#include "serve/openai/tool_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"

namespace gpt::serve {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>", kPythonTag = "<|python_tag|>",
                           kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const size_t end = text.find_last_not_of(kBlanks);
  return text.substr(begin, end == std::string_view::npos ? 0 : end + 1 - begin);
}

// Parses a tool call. Its arguments are stored under one of two keys.
std::optional<ToolCall> read_call(std::string_view text) {
  try {
    const nlohmann::ordered_json call = parse_json_document(text, "a tool call");
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return std::nullopt;
    for (const char* key : {"arguments", "parameters"}) {
      if (call.contains(key) && call[key].is_object())
        return ToolCall{call["name"].get<std::string>(), json_text(call[key])};
    }
  } catch (const Error&) {  // not JSON
  }
  return std::nullopt;
}

// Returns the number of bytes at the end of the text that may be the start of a marker.
size_t beginning_of(std::string_view marker, std::string_view text) {
  for (size_t n = std::min(marker.size() - 1, text.size()); n > 0; --n) {
    if (text.ends_with(marker.substr(0, n))) return n;
  }
  return 0;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

bool takes_tools(std::string_view jinja) {
  return has(jinja, "tools");
}

std::optional<ToolFormat> tool_format_of(std::string_view jinja) {
  if (!takes_tools(jinja)) return std::nullopt;
  if (has(jinja, kOpen)) return ToolFormat::hermes;
  if (has(jinja, kPythonTag) || (has(jinja, "\"parameters\"") && has(jinja, "ipython")))
    return ToolFormat::llama3;
  return std::nullopt;
}

std::optional<ToolCall> ToolCallParser::call_of(std::string_view text) const {
  std::optional<ToolCall> call = read_call(text);
  const std::vector<std::string>& names = options_.names;
  if (call && !names.empty() && std::ranges::find(names, call->name) == names.end()) return std::nullopt;
  return call;
}

ToolCallParser::Found ToolCallParser::push(std::string_view piece) {
  Found found;
  if (ended_) return found;
  held_ += piece;
  if (options_.format == ToolFormat::llama3) {
    push_llama3(found);
    return found;
  }
  while (!ended_ && (in_call_ ? take_call(found) : take_text(found))) {
  }
  return found;
}

void ToolCallParser::push_llama3(Found& found) {
  if (!begun_) {
    const std::string_view text = trimmed(held_);
    if (text.empty() || (kPythonTag.starts_with(text) && text != kPythonTag)) return;
    begun_ = true;
    in_call_ = text.front() == '{' || text.starts_with(kPythonTag);
  }
  if (!in_call_) std::swap(found.text, held_);
}

// Takes the text up to the next call, or up to a possible start of the call's marker. Returns true if a call
// begins. White space after a call belongs to the format and is removed.
bool ToolCallParser::take_text(Found& found) {
  if (behind_call_) held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
  if (options_.from_start && !begun_ && !held_.empty()) {
    text_only_ = !held_.starts_with(kOpen) && !kOpen.starts_with(held_);
    begun_ = text_only_ || held_.starts_with(kOpen);
  }
  if (text_only_) {
    found.text += std::exchange(held_, {});
    return false;
  }
  const size_t open = held_.find(kOpen);
  in_call_ = open != std::string::npos;
  const size_t n = in_call_ ? open : held_.size() - beginning_of(kOpen, held_);
  behind_call_ = behind_call_ && n == 0;
  found.text += held_.substr(0, n);
  held_.erase(0, n);
  return in_call_;
}

// Takes a complete call. An invalid call is returned as text. Returns false if the end of the call has not
// arrived yet.
bool ToolCallParser::take_call(Found& found) {
  const size_t close = held_.find(kClose);
  if (close == std::string::npos) return false;
  const auto call = call_of(trimmed(std::string_view(held_).substr(kOpen.size(), close - kOpen.size())));
  if (call) {
    found.calls.push_back(*call);
    behind_call_ = true;
    ended_ = options_.one_call;
  } else {
    behind_call_ = false;
    found.text += held_.substr(0, close + kClose.size());
  }
  held_.erase(0, close + kClose.size());
  in_call_ = false;
  if (ended_) held_.clear();
  return true;
}

ToolCallParser::Found ToolCallParser::finish() {
  Found found;
  if (options_.format == ToolFormat::llama3 && in_call_) {
    std::string_view text = trimmed(held_);
    if (text.starts_with(kPythonTag)) text = trimmed(text.substr(kPythonTag.size()));
    if (const auto call = call_of(text)) {
      found.calls.push_back(*call);
      held_.clear();
    }
  }
  found.text = held_;
  held_.clear();
  return found;
}

}  // namespace gpt::serve

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt::serve {

// How a model writes that it wants a tool called.
enum class ToolFormat : unsigned char {
  hermes,  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number of times, beside text
  llama3,  // the whole answer is {"name": ..., "parameters": {...}}, perhaps behind <|python_tag|>
};
// The format that a chat template tells its model to use; nothing where it tells of none known here.
std::optional<ToolFormat> tool_format_of(std::string_view jinja);
// Whether a template says anything about tools.
bool takes_tools(std::string_view jinja);

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object, as the model wrote it
};

struct ToolCallOptions {
  ToolFormat format;
  bool one_call = false;  // the answer ends after its first call
  bool from_start =
      false;  // an answer that does not begin with a call has none: it may be JSON that quotes one
  std::vector<std::string> names = {};  // of the tools; none: a call may have any name
};

// Finds calls in an answer that arrives piece by piece. Text that is no part of a call leaves as soon as that
// is certain; what looks like a call and is none, such as damaged JSON, stays text.
class ToolCallParser {
 public:
  explicit ToolCallParser(ToolCallOptions options) : options_(std::move(options)) {}

  // The text that can be shown, and the calls that are complete.
  struct Found {
    std::string text;
    std::vector<ToolCall> calls;
  };
  Found push(std::string_view piece);
  Found finish();                        // the end of the answer
  bool ended() const { return ended_; }  // the one call that there may be has come

 private:
  void push_llama3(Found& found);
  bool take_text(Found& found);
  bool take_call(Found& found);
  std::optional<ToolCall> call_of(std::string_view text) const;

  ToolCallOptions options_;
  std::string held_;
  bool in_call_ = false, begun_ = false, behind_call_ = false, text_only_ = false, ended_ = false;
};

}  // namespace gpt::serve

#pragma once

#include <optional>
#include <string>
#include <string_view>
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

// Finds calls in an answer that arrives piece by piece. Text that is no part of a call leaves as soon as that
// is certain; what looks like a call and is none, such as damaged JSON, stays text.
class ToolCallParser {
 public:
  explicit ToolCallParser(ToolFormat format) : format_(format) {}

  // The text that can be shown, and the calls that are complete.
  struct Found {
    std::string text;
    std::vector<ToolCall> calls;
  };
  Found push(std::string_view piece);
  Found finish();  // the end of the answer

 private:
  bool take_text(Found& found);
  bool take_call(Found& found);

  ToolFormat format_;
  std::string held_;
  bool in_call_ = false, begun_ = false, behind_call_ = false;
};

}  // namespace gpt::serve

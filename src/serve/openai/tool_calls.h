#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt::serve {

// The format in which a model writes tool calls.
enum class ToolFormat : unsigned char {
  hermes,  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number of times, mixed with text
  llama3,  // the whole response is {"name": ..., "parameters": {...}}, possibly after <|python_tag|>
};
// Returns the format that a chat template describes to its model, or nullopt if the template describes no
// known format.
std::optional<ToolFormat> tool_format_of(std::string_view jinja);
// Returns true if a template mentions tools.
bool takes_tools(std::string_view jinja);

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object as the model wrote it
};

struct ToolCallOptions {
  ToolFormat format;
  bool one_call = false;    // the response ends after its first call
  bool from_start = false;  // a response that does not begin with a call contains no calls, because it may be
                            // JSON that quotes one
  std::vector<std::string> names = {};  // names of the tools; empty: a call may have any name
};

// Finds tool calls in a response that arrives piece by piece. Text is returned as soon as it cannot belong to
// a call. Text that looks like a call but is invalid, such as damaged JSON, is returned as text.
class ToolCallParser {
 public:
  explicit ToolCallParser(ToolCallOptions options) : options_(std::move(options)) {}

  // The text that can be shown, and the calls that are complete.
  struct Found {
    std::string text;
    std::vector<ToolCall> calls;
  };
  Found push(std::string_view piece);
  Found finish();                        // must be called at the end of the response
  bool ended() const { return ended_; }  // returns true if only one call is allowed and it is complete

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

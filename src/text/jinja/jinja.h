#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/marked_text.h"

namespace gpt {

// As jinja2.Environment has them; the defaults are those that transformers gives to chat templates.
struct JinjaOptions {
  bool trim_blocks = true;             // a line end right behind a block or comment is not written
  bool lstrip_blocks = true;           // nor blanks between a line's beginning and a block or comment
  bool keep_trailing_newline = false;  // of the template
  bool strict_undefined = false;       // StrictUndefined: whatever uses a name that is not defined fails
  std::optional<int64_t> now;          // seconds since 1970 for strftime_now, in UTC; else this moment, local
};

namespace jinja {
struct Program;
}

// A template in the part of Jinja's language that chat templates and task files use: every expression, the
// statements for, if, set, macro, with, break, continue, raw and generation, Jinja's filters and tests but
// those for HTML, the methods of Python's str, dict and list that change nothing. What is left out is refused
// by name. Steps, nesting and sizes are limited, so that any template of any origin may be run. The text is
// that of jinja2 3.1 with transformers' ImmutableSandboxedEnvironment and its tojson. Immutable: safe to
// share between threads. Source: Jinja's "Template Designer Documentation".
class JinjaTemplate {
 public:
  // Throws Error with the line for a template that is malformed or uses what is left out; `name` stands for
  // it in messages.
  explicit JinjaTemplate(std::string_view source, const JinjaOptions& options = {},
                         std::string name = "template");

  // The text for the names of an object, whose order of keys is kept. Throws Error with the line where the
  // template fails, raises an exception or exceeds a limit.
  std::string render(const nlohmann::ordered_json& context) const;
  std::string render(const nlohmann::json& context) const;

  // The same, with what each byte came from: element i of "messages" but for its role, name and tool_call_id,
  // the context otherwise, or the template, which names ending in "_token" count as.
  JinjaText render_marked(const nlohmann::ordered_json& context) const;

 private:
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace gpt

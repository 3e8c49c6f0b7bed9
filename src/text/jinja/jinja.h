#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/marked_text.h"

namespace gpt {

// Options of jinja2.Environment. The defaults are the values that transformers uses for chat templates.
struct JinjaOptions {
  bool trim_blocks = true;             // drop a newline directly after a block or comment
  bool lstrip_blocks = true;           // drop spaces between the start of a line and a block or comment
  bool keep_trailing_newline = false;  // keep the newline at the end of the template
  bool strict_undefined = false;       // StrictUndefined: any use of an undefined name is an error
  std::optional<int64_t> now;          // time for strftime_now in seconds since 1970, in UTC; by default the
                                       // current local time
};

namespace jinja {
struct Program;
}

// A template in the subset of Jinja that chat templates and task files use. Supports all expressions, the
// statements for, if, set, macro, with, break, continue, raw and generation, and all filters and tests of
// Jinja except those for HTML. Supports the methods of Python's str, dict and list that do not modify the
// object. Other features are rejected by name. The number of steps, the nesting depth and sizes are limited,
// so that untrusted templates can be run. The output equals that of jinja2 3.1 with the
// ImmutableSandboxedEnvironment of transformers and its tojson. Immutable and safe to share between threads.
// Source: Jinja's "Template Designer Documentation".
class JinjaTemplate {
 public:
  // Throws Error with the line number if the template is malformed or uses an unsupported feature. `name` is
  // the name of the template in messages.
  explicit JinjaTemplate(std::string_view source, const JinjaOptions& options = {},
                         std::string name = "template");

  // Renders the template. The members of `context` are the variables of the template, and the order of keys
  // is kept. Throws Error with the line number if the template fails, raises an exception or exceeds a limit.
  std::string render(const nlohmann::ordered_json& context) const;
  std::string render(const nlohmann::json& context) const;

  // Does the same and records the origin of each byte. The origin is element i of "messages" (except its
  // role, name and tool_call_id), another part of the context, or the template. Variables whose names end in
  // "_token" count as the template.
  JinjaText render_marked(const nlohmann::ordered_json& context) const;

 private:
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace gpt

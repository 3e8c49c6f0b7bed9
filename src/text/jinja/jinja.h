#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/marked_text.h"

namespace gpt {

// Options of jinja2.Environment. The default values are those that transformers uses for chat templates.
struct JinjaOptions {
  bool trim_blocks = true;             // remove a newline that directly follows a block or comment
  bool lstrip_blocks = true;           // remove spaces between the start of a line and a block or comment
  bool keep_trailing_newline = false;  // keep the newline at the end of the template source
  bool strict_undefined = false;       // StrictUndefined: using an undefined variable is an error
  // The time that strftime_now formats, in seconds since 1970. It is formatted in UTC. If unset, strftime_now
  // formats the current local time.
  std::optional<int64_t> now;
};

namespace jinja {
struct Program;
}

// A template in the subset of Jinja that chat templates and task files use. The subset contains all
// expressions, the statements for, if, set, macro, with, break, continue, raw and generation, and all filters
// and tests of Jinja except those for HTML. It also contains the methods of Python's str, dict and list that
// do not modify the object. Other features are rejected by name. Steps, nesting and sizes are limited, so
// that templates from untrusted sources can be run. The output equals that of jinja2 3.1 with the
// ImmutableSandboxedEnvironment and tojson of transformers. Immutable and safe to share between threads.
// Source: Jinja's "Template Designer Documentation".
class JinjaTemplate {
 public:
  // Throws Error with the line number if the template is malformed or uses an unsupported feature. `name` is
  // the name of the template in error messages.
  explicit JinjaTemplate(std::string_view source, const JinjaOptions& options = {},
                         std::string name = "template");

  // Renders the template. The members of the object `context` are the variables of the template. The order of
  // keys is kept. Throws Error with the line number if the template fails, raises an exception or exceeds a
  // limit.
  std::string render(const nlohmann::ordered_json& context) const;
  std::string render(const nlohmann::json& context) const;

  // Renders the template and records the origin of each byte. The origin is an element of "messages", another
  // part of the context, or the template. The origin of the role, name and tool_call_id of a message is the
  // context, not the message. The origin of variables whose names end in "_token" is the template.
  JinjaText render_marked(const nlohmann::ordered_json& context) const;

 private:
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace gpt

#include "serve/openai/answer_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "grammar/grammar_constraint.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

using nlohmann::json;
using Ordered = nlohmann::ordered_json;
using grammar::GrammarSource;
using Kind = GrammarSource::Kind;

// Returns a GBNF grammar that accepts one of the given texts.
std::string choice_grammar(const json& choices, const std::string& field) {
  if (!choices.is_array() || choices.empty()) fail_field(field, "expected a list of strings");
  std::string gbnf = "root ::= ";
  for (const json& choice : choices) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty())
      fail_field(field, "expected a list of non-empty strings");
    if (gbnf.back() == '"') gbnf += " | ";
    gbnf += '"';
    for (const char c : choice.get_ref<const std::string&>()) {
      const bool control = static_cast<unsigned char>(c) < 0x20;
      if (c == '"' || c == '\\') gbnf += '\\';
      gbnf += control ? fmt::format("\\x{:02X}", c) : std::string(1, c);
    }
    gbnf += '"';
  }
  return gbnf;
}

std::string text_of(const json& value, const std::string& field) {
  if (!value.is_string()) fail_field(field, "expected a string");
  return value.get<std::string>();
}

// Reads a schema, which is a JSON object or, as some clients send it, a string of JSON.
GrammarSource schema_source(const Ordered& schema, const std::string& field) {
  if (schema.is_string()) return {Kind::json_schema, schema.get<std::string>()};
  if (!schema.is_object() && !schema.is_boolean()) fail_field(field, "expected a JSON schema");
  return {Kind::json_schema, json_text(schema)};
}

AnswerGrammar format_grammar(const Fields& format, const Ordered& value) {
  const auto type = format.choice("type", {"text", "json_object", "json_schema"}).value_or("");
  if (type.empty()) fail_field("response_format.type", "expected a string, found none");
  if (type == "json_object") {
    if (format.find("schema") == nullptr) return {{Kind::json_object}, "response_format"};
    return {schema_source(value["schema"], "response_format.schema"), "response_format.schema"};
  }
  const json* named = format.find("json_schema");
  const std::string field = "response_format.json_schema";
  if (named == nullptr) fail_field(field, "expected {{\"name\", \"schema\"}}, found none");
  const Fields inner(*named, field + ".");
  inner.text("name");
  inner.boolean("strict");
  if (inner.find("schema") == nullptr) fail_field(field + ".schema", "expected a JSON schema, found none");
  return {schema_source(value["json_schema"]["schema"], field + ".schema"), field + ".schema"};
}

// Reads a field that names a kind of grammar. `kind` is one of kKinds.
AnswerGrammar named_grammar(std::string_view kind, const json& value, const Ordered& ordered,
                            const std::string& field) {
  if (kind == "json") return {schema_source(ordered, field), field};
  if (kind == "regex") return {{Kind::regex, text_of(value, field)}, field};
  if (kind == "choice") return {{Kind::gbnf, choice_grammar(value, field)}, field};
  if (kind == "grammar") return {{Kind::gbnf, text_of(value, field)}, field};
  if (kind != "json_object" || value != true) fail_field(field, "expected true");
  return {{Kind::json_object}, field};
}

// Fields of llama.cpp's server and of older vLLM versions.
constexpr std::pair<const char*, const char*> kNamed[] = {
    {"json_schema", "json"},   {"grammar", "grammar"},      {"guided_json", "json"},
    {"guided_regex", "regex"}, {"guided_choice", "choice"}, {"guided_grammar", "grammar"}};
constexpr const char* kKinds[] = {"json", "regex", "choice", "grammar", "json_object"};

// Reads vLLM's "structured_outputs", such as {"json": ...}.
AnswerGrammar structured_grammar(const Fields& fields, const json& value, const Ordered& ordered) {
  const std::string field = "structured_outputs";
  if (!value.is_object()) fields.fail(field.c_str(), "an object", value);
  std::optional<AnswerGrammar> found;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (it->is_null()) continue;
    const bool known = std::ranges::any_of(kKinds, [&](const char* kind) { return it.key() == kind; });
    if (!known || found)
      fail_field(field, "expected one of \"json\", \"regex\", \"choice\", \"grammar\", \"json_object\"");
    found = named_grammar(it.key(), *it, ordered[it.key()], field + "." + it.key());
  }
  if (!found)
    fail_field(field, "expected one of \"json\", \"regex\", \"choice\", \"grammar\", \"json_object\"");
  return *found;
}

// Moves the parameters of a tool into a larger schema. References of the form "#/..." are changed to start at
// `place`.
void move_references(Ordered& schema, const std::string& place) {
  if (schema.is_array()) {
    for (Ordered& part : schema)
      move_references(part, place);
  }
  if (!schema.is_object()) return;
  for (auto& [key, value] : schema.items()) {
    if (key == "const" || key == "enum" || key == "default" || key == "examples") continue;
    if (key == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with('#')) {
      value = "#" + place + value.get<std::string>().substr(1);
    } else {
      move_references(value, place);
    }
  }
}

}  // namespace

std::optional<AnswerGrammar> read_answer_grammar(const Fields& fields, std::string_view body) {
  std::optional<AnswerGrammar> found;
  std::optional<Ordered> ordered;
  const auto add = [&](const char* name, auto&& read) {
    const json* value = fields.find(name);
    if (value == nullptr) return;
    if (!ordered) ordered = parse_body_document(body);
    if (found) fail_field(name, "cannot be combined with {}", found->field);
    found = read(*value, (*ordered)[name]);
  };
  const json* format = fields.find("response_format");
  const bool any_text = format != nullptr && format->is_object() && format->value("type", json()) == "text";
  if (!any_text) {
    add("response_format", [](const json& value, const Ordered& inner) {
      return format_grammar(Fields(value, "response_format."), inner);
    });
  }
  add("structured_outputs",
      [&](const json& value, const Ordered& inner) { return structured_grammar(fields, value, inner); });
  for (const std::pair<const char*, const char*>& named : kNamed) {
    add(named.first, [&](const json& value, const Ordered& inner) {
      return named_grammar(named.second, value, inner, named.first);
    });
  }
  return found;
}

AnswerGrammar tool_call_grammar(const Ordered& tools, ToolFormat format, bool several) {
  const char* const arguments = format == ToolFormat::hermes ? "arguments" : "parameters";
  Ordered calls = Ordered::array();
  for (const Ordered& tool : tools) {
    const Ordered& function = tool["function"];
    Ordered parameters = Ordered::object();
    if (function.contains("parameters") && !function["parameters"].is_null())
      parameters = function["parameters"];
    if (!parameters.contains("type") && !parameters.contains("$ref")) parameters["type"] = "object";
    move_references(parameters, fmt::format("/anyOf/{}/properties/{}", calls.size(), arguments));
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", function["name"]}}}, {arguments, parameters}}},
                     {"required", {"name", arguments}},
                     {"additionalProperties", false}});
  }
  GrammarSource source{Kind::json_schema, json_text(Ordered{{"anyOf", calls}})};
  if (format == ToolFormat::hermes)
    source.frame = {.before = "<tool_call>\n", .after = "\n</tool_call>", .between = several ? "\n" : ""};
  return {std::move(source), "tools"};
}

namespace {

// Returns the field whose grammar cannot be compiled. This is "tools" if the grammar compiles without the
// tool calls, and the field of the grammar otherwise.
std::string field_at_fault(AnswerGrammar grammar) {
  if (grammar.source.others.empty()) return grammar.field;
  grammar.source.others.clear();
  try {
    compile(grammar.source);
  } catch (const Error&) {
    return grammar.field;
  }
  return "tools";
}

}  // namespace

void constrain(std::span<Request> requests, const AnswerGrammar& grammar, const ServedModel& model) {
  std::shared_ptr<grammar::TokenMasks> masks;
  try {
    masks = model.grammars().masks(grammar.source);
  } catch (const Error& error) {
    const std::string field = field_at_fault(grammar);
    throw ApiError(400, field + ": " + error.what(), field, "invalid_schema");
  }
  const Request* before = nullptr;
  try {
    for (Request& request : requests) {
      const bool same = before != nullptr && before->max_tokens == request.max_tokens;
      request.constraint = same ? before->constraint : grammar::make_constraint(masks, request.max_tokens);
      before = &request;
    }
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "max_tokens", "max_tokens_too_small");
  }
}

}  // namespace gpt::serve

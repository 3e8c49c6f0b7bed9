#include "serve/openai/api_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "base/ranges.h"
#include "serve/openai/api_types.h"
#include "serve/openai/responses.h"
#include "serve/router.h"

namespace gpt::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOr = " | ", kList = "[]";

std::vector<ApiType> all_types() {
  std::vector<ApiType> types = request_types();
  for (const ApiType& type : response_types())
    types.push_back(type);
  return types;
}

// Splits a type at " | ".
std::vector<std::string_view> alternatives(std::string_view type) {
  std::vector<std::string_view> parts;
  for (size_t at; (at = type.find(kOr)) != std::string_view::npos; type.remove_prefix(at + kOr.size()))
    parts.push_back(type.substr(0, at));
  parts.push_back(type);
  return parts;
}

bool is_json_type(std::string_view type) {
  constexpr std::string_view kTypes[] = {"string", "integer", "number", "boolean", "object", "null"};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

bool is_number(std::string_view type) {
  return type == "integer" || type == "number";
}

// Returns the status codes of an endpoint and their descriptions, except 200.
std::map<int, std::string> errors_of(const Endpoint& endpoint) {
  std::map<int, std::string> errors;
  if (!endpoint.open) errors[401] = "The API key is missing or invalid.";
  if (*endpoint.below != 0 || endpoint.has_body())
    errors[404] = fmt::format("The {} does not exist.", *endpoint.below != 0 ? endpoint.below : "model");
  if (endpoint.runs != Runs::on_server) errors[503] = "The server is shutting down or overloaded.";
  if (endpoint.has_body()) {
    errors[400] = "A field is invalid or not supported. The error names the field.";
    errors[413] = "The request body is too large.";
    errors[415] = "The Content-Type is not application/json.";
    errors[429] = "The queue is full. Retry-After contains the number of seconds to wait.";
    errors[504] = "The response took too long.";
  }
  for (const auto& [status, help] : endpoint.errors)
    errors[status] = help;
  return errors;
}

// Returns the path with the name of its last part: "/v1/models/{model}".
std::string path_of(const Endpoint& endpoint) {
  if (*endpoint.below == 0) return endpoint.path;
  return fmt::format("{}{{{}}}", endpoint.path.substr(0, endpoint.path.size() - 1), endpoint.below);
}

// Returns the content type of a response without parameters such as the character set.
std::string media_type(const Endpoint& endpoint) {
  const std::string_view type = endpoint.content_type;
  return std::string(type.substr(0, type.find(';')));
}

// ---------------------------------------------------------------------------------------------------
// OpenAPI.

Json reference_to(std::string_view type) {
  return {{"$ref", fmt::format("#/components/schemas/{}", type)}};
}

// Returns a number as an integer if it is one.
Json plain_number(double x) {
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return x == std::floor(x) && x >= -0x1p63 ? Json(static_cast<int64_t>(x)) : Json(x);
}

void add_range(Json& schema, const char* min_key, double min, const char* max_key, double max) {
  if (!std::isnan(min)) schema[min_key] = plain_number(min);
  if (!std::isnan(max)) schema[max_key] = plain_number(max);
}

// Returns the schema of a type without alternatives. The range of the field applies as described in ApiField.
Json schema_of_one(std::string_view type, const ApiField& field) {
  if (type.ends_with(kList)) {
    const std::string_view item = type.substr(0, type.size() - kList.size());
    ApiField inner = field;
    Json schema = {{"type", "array"}};
    if (!is_number(item) && !item.ends_with(kList)) {
      const bool names = is_json_type(item);
      add_range(schema, "minItems", names ? NAN : field.min, "maxItems", field.max);
      inner.max = NAN;
      if (!names) inner.min = NAN;
    }
    schema["items"] = schema_of_one(item, inner);
    return schema;
  }
  if (type.ends_with('?')) {
    const Json schema = schema_of_one(type.substr(0, type.size() - 1), field);
    return {{"anyOf", {schema, {{"type", "null"}}}}};
  }
  if (!is_json_type(type)) return reference_to(type);
  Json schema = {{"type", type}};
  if (is_number(type)) add_range(schema, "minimum", field.min, "maximum", field.max);
  if (type == "string" && *field.choices != 0) {
    schema = {{"enum", split(field.choices, '|')}};
  } else if (type == "string") {
    add_range(schema, "minLength", field.min > 0 ? field.min : NAN, "maxLength",
              field.type.find(kList) == std::string::npos ? field.max : NAN);
  } else if (type == "object" && !std::isnan(field.min)) {
    schema["additionalProperties"] = {{"type", "number"}};
    add_range(schema["additionalProperties"], "minimum", field.min, "maximum", field.max);
  }
  return schema;
}

Json schema_of(const ApiField& field, bool may_be_null) {
  std::vector<Json> parts = transformed(alternatives(field.type),
                                        [&](std::string_view type) { return schema_of_one(type, field); });
  if (may_be_null) parts.push_back({{"type", "null"}});
  Json schema;
  if (parts.size() == 1) {
    schema = parts.front();
  } else if (parts.size() == 2 && parts[1] == Json{{"type", "null"}} && parts[0].contains("type")) {
    schema = parts.front();
    schema["type"] = {parts[0]["type"], "null"};
  } else {
    schema["anyOf"] = parts;
  }
  if (!field.default_value.empty()) schema["default"] = Json::parse(field.default_value);
  if (*field.help != 0) schema["description"] = std::string(field.help) + ".";
  return schema;
}

Json schema_of(const ApiType& type) {
  Json schema;
  if (!type.alias.type.empty()) {
    schema = schema_of(type.alias, false);
  } else {
    schema = {{"type", "object"}, {"required", Json::array()}, {"properties", Json::object()}};
    for (const ApiField& field : type.fields) {
      schema["properties"][field.name] = schema_of(field, type.in_request && !field.required);
      if (field.required) schema["required"].push_back(field.name);
    }
    if (schema["required"].empty()) schema.erase("required");
  }
  schema["description"] = type.help;
  return schema;
}

Json content_of(const std::string& content_type, const Json& schema) {
  return {{content_type, {{"schema", schema}}}};
}

Json operation_of(const Endpoint& endpoint) {
  Json operation = {{"summary", std::string(endpoint.help) + "."}, {"security", Json::array()}};
  if (!endpoint.open) operation["security"].push_back({{"key", Json::array()}});
  if (*endpoint.below != 0)
    operation["parameters"] = {
        {{"name", endpoint.below}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}};
  if (endpoint.has_body())
    operation["requestBody"] = {{"required", true},
                                {"content", content_of("application/json", reference_to(endpoint.request))}};
  const std::string content_type = media_type(endpoint);
  Json& answer = operation["responses"]["200"] = {{"description", "The response."}};
  if (*endpoint.header.name != 0)
    answer["headers"][endpoint.header.name] = {{"description", std::string(endpoint.header.help) + "."},
                                               {"schema", {{"type", endpoint.header.type}}}};
  answer["content"] = content_of(
      content_type, *endpoint.response != 0
                        ? reference_to(endpoint.response)
                        : Json{{"type", content_type == "application/json" ? "object" : "string"}});
  if (endpoint.streams) answer["content"]["text/event-stream"] = {{"schema", {{"type", "string"}}}};
  for (const auto& [status, help] : errors_of(endpoint))
    operation["responses"][std::to_string(status)] = {
        {"description", help},
        {"content", content_of("application/json", reference_to(ErrorResponse::kName))}};
  return operation;
}

// ---------------------------------------------------------------------------------------------------
// Markdown.

constexpr const char* kIntroduction = R"(# API of gpt serve

All endpoints, request fields and response fields of `gpt serve`. [Serving models](serving.md) explains their behavior.
A running server returns the same reference at `GET /openapi.json`. This page is generated by
`gpt completion markdown api`.

If the server has API keys, a request needs the header `Authorization: Bearer KEY`, except where the column "key" says
"no". Bodies are JSON with `Content-Type: application/json`. Request fields that are not required may be missing or
null. A response with a status of 400 or more has the body [Error](#error). `[]` after a type is a list, and `?` means
that the value may be null.

## Endpoints

| endpoint | purpose | key | request | response |
| --- | --- | --- | --- | --- |
)";

// Returns text for a cell of a table.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, 1, '\\');
  return text;
}

std::string values_of(const ApiField& field) {
  if (*field.choices != 0)
    return sum_of(split(field.choices, '|'), [&](std::string_view choice) {
      return fmt::format("{}`{}`", choice.data() == field.choices ? "" : ", ", choice);
    });
  const auto types = alternatives(field.type);
  if (!is_number(types.front()) && field.type != "object") return "";
  const bool has_max = !std::isnan(field.max);
  if (std::isnan(field.min) || field.max >= 0x1p63) return "";
  return has_max ? fmt::format("{} to {}", field.min, field.max) : fmt::format("at least {}", field.min);
}

void add_fields(std::string& out, const ApiType& type) {
  out += type.in_request ? "| field | type | default | values | meaning |\n| --- | --- | --- | --- | --- |\n"
                         : "| field | type | values | meaning |\n| --- | --- | --- | --- |\n";
  for (const ApiField& f : type.fields) {
    out += fmt::format("| `{}` | {} |", f.name, cell(f.type));
    if (type.in_request) {
      const std::string value = f.default_value.empty() ? "" : fmt::format("`{}`", f.default_value);
      out += fmt::format(" {} |", f.required ? "required" : value);
    }
    const char* note = type.in_request || f.required ? "" : "; may be missing";
    out += fmt::format(" {} | {}{} |\n", cell(values_of(f)), cell(f.help), note);
  }
}

void add_type(std::string& out, const ApiType& type) {
  out += fmt::format("\n### {}\n\n{}\n\n", type.name, type.help);
  if (type.alias.type.empty()) {
    add_fields(out, type);
  } else {
    out += fmt::format("Type: {}\n", type.alias.type);
  }
}

std::string link_to(std::string_view type) {
  std::string anchor(type);
  std::ranges::transform(anchor, anchor.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return fmt::format("[{}](#{})", type, anchor);
}

std::string response_name(const Endpoint& endpoint) {
  if (*endpoint.response != 0)
    return link_to(endpoint.response) + (endpoint.streams ? " or a stream of events" : "");
  return media_type(endpoint);
}

}  // namespace

const std::string& openapi_document() {
  static const std::string document = [] {
    Json paths = Json::object(), schemas = Json::object();
    for (const Endpoint& endpoint : endpoint_table()) {
      const char* method = endpoint.method == "GET" ? "get" : "post";
      paths[path_of(endpoint)][method] = operation_of(endpoint);
    }
    for (const ApiType& type : all_types())
      schemas[type.name] = schema_of(type);
    const Json key = {
        {"type", "http"}, {"scheme", "bearer"}, {"description", "Required if the server has API keys."}};
    const Json out = {
        {"openapi", "3.1.0"},
        {"info",
         {{"title", "gpt serve"},
          {"version", "1"},
          {"description",
           "OpenAI-compatible API for the models of a gpt.cpp server, with additional fields and "
           "endpoints."}}},
        {"paths", paths},
        {"components", {{"securitySchemes", {{"key", key}}}, {"schemas", schemas}}}};
    return out.dump(1);
  }();
  return document;
}

std::string api_reference() {
  std::string out = kIntroduction;
  for (const Endpoint& endpoint : endpoint_table())
    out += fmt::format("| `{} {}` | {} | {} | {} | {} |\n", endpoint.method, path_of(endpoint), endpoint.help,
                       endpoint.open ? "no" : "yes", endpoint.has_body() ? link_to(endpoint.request) : "",
                       response_name(endpoint));
  out += "\n## Status codes\n\n| status | meaning |\n| --- | --- |\n";
  std::map<int, std::string> errors;
  for (const Endpoint& endpoint : endpoint_table()) {
    for (const auto& [status, help] : errors_of(endpoint)) {
      std::string& all = errors[status];
      if (all.find(help) == std::string::npos) all += (all.empty() ? "" : " ") + help;
    }
  }
  for (const auto& [status, help] : errors)
    out += fmt::format("| {} | {} |\n", status, help);
  for (const bool in_request : {true, false}) {
    out += in_request ? "\n## Requests\n" : "\n## Responses\n";
    for (const ApiType& type : all_types()) {
      if (type.in_request == in_request) add_type(out, type);
    }
  }
  return out;
}

}  // namespace gpt::serve

#include "serve/openai/responses.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace gpt::serve {
namespace {

template <class T>
concept Object = requires {
  T::kName;
};
template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;
template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_variant = false;
template <class... T>
constexpr bool is_variant<std::variant<T...>> = true;

// Returns true for a value that an optional field leaves out.
template <class T>
bool is_missing(const T& value) {
  if constexpr (is_optional<T>) return !value.has_value();
  if constexpr (is_vector<T> || std::is_same_v<T, std::string>) return value.empty();
  return false;
}

// Converts a part of a response to JSON.
template <class Json, class T>
Json converted(const T& value) {
  if constexpr (Object<T>) {
    Json object = Json::object();
    T::fields(value, [&](const ResponseField& field, const auto& part) {
      if (!field.optional || !is_missing(part)) object[field.name] = converted<Json>(part);
    });
    return object;
  } else if constexpr (std::is_same_v<T, NamedNumbers>) {
    Json object = Json::object();
    for (const auto& [name, number] : value)
      object[name] = number;
    return object;
  } else if constexpr (std::is_same_v<T, JsonText>) {
    return Json::parse(value.text);
  } else if constexpr (is_optional<T>) {
    return value ? converted<Json>(*value) : Json(nullptr);
  } else if constexpr (is_variant<T>) {
    return std::visit([](const auto& part) { return converted<Json>(part); }, value);
  } else if constexpr (is_vector<T>) {
    Json list = Json::array();
    for (const auto& part : value)
      list.push_back(converted<Json>(part));
    return list;
  } else {
    return Json(value);
  }
}

// Embeddings are written with the digits of fp32. The digits of fp64 would double the size of a response.
using Fp32Json =
    nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, int64_t, uint64_t, float>;

// ---------------------------------------------------------------------------------------------------
// Descriptions.

template <class T>
void add_type(std::vector<ApiType>& types);

// Returns the name of a type in the notation of ApiField. Adds the objects that it contains to `types`.
template <class T>
std::string name_of(std::vector<ApiType>& types) {
  if constexpr (Object<T>) {
    add_type<T>(types);
    return T::kName;
  } else if constexpr (std::is_same_v<T, NamedNumbers> || std::is_same_v<T, JsonText>) {
    return "object";
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    return "null";
  } else if constexpr (is_optional<T>) {
    return name_of<typename T::value_type>(types) + " | null";
  } else if constexpr (is_variant<T>) {
    return name_of<std::variant_alternative_t<0, T>>(types) + " | " +
           name_of<std::variant_alternative_t<1, T>>(types);
  } else if constexpr (is_vector<T>) {
    using Part = typename T::value_type;
    if constexpr (is_optional<Part>)
      return name_of<typename Part::value_type>(types) + "?[]";
    else
      return name_of<Part>(types) + "[]";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else {
    return "string";
  }
}

template <class T>
void add_type(std::vector<ApiType>& types) {
  if (std::ranges::find(types, T::kName, &ApiType::name) != types.end()) return;
  const size_t at = types.size();
  types.push_back({.name = T::kName, .help = T::kHelp});
  std::vector<ApiField> fields;
  const T example{};
  T::fields(example, [&](const ResponseField& field, const auto& part) {
    std::string type = name_of<std::decay_t<decltype(part)>>(types);
    if (field.optional && type.ends_with(" | null"))
      type.resize(type.size() - std::string_view(" | null").size());
    fields.push_back({.name = field.name,
                      .help = field.help,
                      .type = type,
                      .choices = field.choices,
                      .required = !field.optional});
  });
  types[at].fields = std::move(fields);
}

template <class... T>
std::vector<ApiType> types_of() {
  std::vector<ApiType> types;
  (add_type<T>(types), ...);
  return types;
}

}  // namespace

template <class Response>
std::string json_of(const Response& response) {
  using Json =
      std::conditional_t<std::is_same_v<Response, EmbeddingsResponse>, Fp32Json, nlohmann::ordered_json>;
  return converted<Json>(response).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template std::string json_of(const ErrorResponse&);
template std::string json_of(const UsageResponse&);
template std::string json_of(const std::vector<ToolCallResponse>&);
template std::string json_of(const std::optional<ChatLogprobs>&);
template std::string json_of(const std::optional<CompletionLogprobs>&);
template std::string json_of(const ChatResponse&);
template std::string json_of(const CompletionResponse&);
template std::string json_of(const EmbeddingsResponse&);
template std::string json_of(const ModelResponse&);
template std::string json_of(const ModelsResponse&);
template std::string json_of(const TokenizeResponse&);
template std::string json_of(const DetokenizeResponse&);
template std::string json_of(const TemplateResponse&);
template std::string json_of(const LoadResponse&);
template std::string json_of(const HealthResponse&);
template std::string json_of(const RunResponse&);
template std::string json_of(const RunsResponse&);

std::vector<ApiType> response_types() {
  return types_of<ChatResponse, CompletionResponse, EmbeddingsResponse, ModelsResponse, TokenizeResponse,
                  DetokenizeResponse, TemplateResponse, LoadResponse, HealthResponse, RunsResponse,
                  ErrorResponse>();
}

}  // namespace gpt::serve

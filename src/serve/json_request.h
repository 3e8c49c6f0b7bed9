#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt::serve {

// The body of a request: strict JSON, an object, at most 64 levels deep. Throws ApiError (400).
nlohmann::json parse_body(std::string_view body);
// The same body for templates and grammars: parse_json_document keeps its keys in order and its integers'
// digits.
nlohmann::ordered_json parse_body_document(std::string_view body);

// The fields of an object in a request, each with its type and range. What does not fit is an ApiError (400)
// that names the field. null stands for a field that is not given, as OpenAI's clients send it.
class Fields {
 public:
  // The object must outlive it. prefix: where it stands in the request, such as "stream_options.".
  explicit Fields(const nlohmann::json& object, std::string prefix = {});

  std::optional<bool> boolean(const char* name) const;
  // Whole numbers within [low, high]; 3.0 is one.
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high) const;
  // Finite numbers within [low, high].
  std::optional<double> number(const char* name, double low, double high) const;
  std::optional<std::string> text(const char* name) const;
  // One of a few words.
  std::optional<std::string> choice(const char* name, std::initializer_list<const char*> words) const;
  // The value, whatever it is; null where it is not given.
  const nlohmann::json* find(const char* name) const;

  // Throws for a field that is given and would change the answer in a way that there is none of here.
  void refuse(std::initializer_list<const char*> names) const;
  [[noreturn]] void fail(const char* name, const std::string& expected, const nlohmann::json& found) const;

 private:
  const nlohmann::json& object_;
  std::string prefix_;
};

}  // namespace gpt::serve

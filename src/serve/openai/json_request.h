#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt::serve {

// Parses the body of a request as strict JSON. The body must be an object with at most 64 levels. Throws
// ApiError (400).
nlohmann::json parse_body(std::string_view body);
// Parses the body for templates and grammars. Like parse_json_document, the function preserves the order of
// keys and the digits of integers.
nlohmann::ordered_json parse_body_document(std::string_view body);

// Reads the fields of an object in a request, with a type and a range for each field. An invalid value throws
// ApiError (400) that names the field. A null value counts as a missing field, because OpenAI's clients send
// null.
class Fields {
 public:
  // `object` must outlive this object. `prefix` is the path of the object in the request, such as
  // "stream_options.".
  explicit Fields(const nlohmann::json& object, std::string prefix = {});

  std::optional<bool> boolean(const char* name) const;
  // Returns a whole number within [low, high]. 3.0 counts as a whole number.
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high) const;
  // Returns a finite number within [low, high].
  std::optional<double> number(const char* name, double low, double high) const;
  std::optional<std::string> text(const char* name) const;
  // Returns a string, which must be one of `words`.
  std::optional<std::string> choice(const char* name, std::span<const char* const> words) const;
  std::optional<std::string> choice(const char* name, std::initializer_list<const char*> words) const {
    return choice(name, std::span(words.begin(), words.size()));
  }
  // Returns the value without checking its type, or null if the field is missing.
  const nlohmann::json* find(const char* name) const;

  // Throws ApiError if one of the fields is set. These fields would change the response in a way that is not
  // supported.
  void refuse(std::initializer_list<const char*> names) const;
  [[noreturn]] void fail(const char* name, const std::string& expected, const nlohmann::json& found) const;

 private:
  const nlohmann::json& object_;
  std::string prefix_;
};

}  // namespace gpt::serve

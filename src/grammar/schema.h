#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "grammar/limits.h"

namespace gpt::grammar {

// A bit mask of JSON types. Every integer is also a number.
enum JsonTypes : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,  // a number that is not an integer
  kNumber = kInteger | kFraction,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAllTypes = 127,
};

// A schema and its location in the document as a JSON pointer.
struct SchemaAt {
  const nlohmann::ordered_json* value;
  std::string pointer;
};

// A schema document. Resolves references, and analyzes schemas before a grammar is created. Error messages
// begin with "JSON schema: " and the JSON pointer.
class SchemaDocument {
 public:
  // Keeps a reference to the JSON document, which must outlive this object.
  SchemaDocument(const nlohmann::ordered_json& root, const Limits& limits);
  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;
  ~SchemaDocument();

  SchemaAt root() const;
  // target() returns the schema that the $ref of `from` points to. resolved() follows references until it
  // reaches a schema that is more than a reference. Both functions throw Error for a reference that is not in
  // the document. resolved() also throws Error for a circular chain of references.
  SchemaAt target(const SchemaAt& from) const;
  SchemaAt resolved(SchemaAt schema) const;

  // Merges simple schemas. A value satisfies the merged schema if it satisfies all given schemas. Throws
  // Error if the schemas cannot be merged. The result lives as long as the document.
  SchemaAt all_of(const std::vector<SchemaAt>& schemas, const std::string& pointer);

  // Returns the types that values of the schema can have. The result is an upper bound: it may include types
  // that no value of the schema has.
  uint8_t types(const SchemaAt& schema) const;
  // Returns true if it is certain that no value satisfies both schemas.
  bool disjoint(const SchemaAt& a, const SchemaAt& b) const;

 private:
  class Merger;
  struct Made;
  uint8_t types(const SchemaAt& schema, int depth) const;

  const nlohmann::ordered_json& root_;
  Limits limits_;
  std::unique_ptr<Made> made_;
};

// Returns true for keywords that do not constrain values, such as title, description or $defs.
bool is_annotation(const std::string& keyword);
// Returns the values listed by `const` or `enum`. Throws Error if `enum` is not a list.
std::vector<nlohmann::ordered_json> listed_values(const SchemaAt& schema);
bool lists_values(const nlohmann::ordered_json& schema);
// Returns the value of a count keyword such as maxLength, capped at 1e9. Returns -1 if the keyword is
// missing.
int64_t count_of(const SchemaAt& schema, const std::string& keyword);
// types_of_value() returns the types of a value. types_of_keyword() returns the types listed by the keyword
// `type`, or all types if the keyword is missing.
uint8_t types_of_value(const nlohmann::ordered_json& value);
uint8_t types_of_keyword(const SchemaAt& schema);
// Returns a noun for the type of a value, like json_kind.
std::string kind_of(const nlohmann::ordered_json& value);

[[noreturn]] void fail_schema(const std::string& pointer, const std::string& message);
std::string pointer_to(const std::string& pointer, const std::string& key);

}  // namespace gpt::grammar

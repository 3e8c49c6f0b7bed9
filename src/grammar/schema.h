#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "grammar/limits.h"

namespace gpt::grammar {

// JSON types, as a set of bits; every integer is a number.
enum JsonTypes : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,  // a number that is no integer
  kNumber = kInteger | kFraction,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAllTypes = 127,
};

// A schema with its place in the document, as a JSON pointer.
struct SchemaAt {
  const nlohmann::ordered_json* value;
  std::string pointer;
};

// A schema document: what its references mean, and what can be said of schemas before a grammar is made of
// them. Errors begin with "JSON schema: " and the pointer.
class SchemaDocument {
 public:
  // Refers to the document, which outlives it.
  SchemaDocument(const nlohmann::ordered_json& root, const Limits& limits);
  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;
  ~SchemaDocument();

  SchemaAt root() const;
  // The schema that a schema's $ref names, or the one that this one refers to, and so on. Throws Error for
  // one that is not in the document or refers to itself.
  SchemaAt target(const SchemaAt& from) const;
  SchemaAt resolved(SchemaAt schema) const;

  // The schema that is fulfilled where all of these are, of simple ones. Throws Error where it cannot be
  // written as one. The result lives as long as the document.
  SchemaAt all_of(const std::vector<SchemaAt>& schemas, const std::string& pointer);

  // The types that values can have which fulfil the schema, or more.
  uint8_t types(const SchemaAt& schema) const;
  // Whether certainly no value fulfils both.
  bool disjoint(const SchemaAt& a, const SchemaAt& b) const;

 private:
  class Merger;
  struct Made;
  uint8_t types(const SchemaAt& schema, int depth) const;

  const nlohmann::ordered_json& root_;
  Limits limits_;
  std::unique_ptr<Made> made_;
};

// Whether a keyword says nothing about values: title, description, $defs, ...
bool is_annotation(const std::string& keyword);
// The values that a schema with `const` or `enum` lists. Throws Error for an `enum` that is no list.
std::vector<nlohmann::ordered_json> listed_values(const SchemaAt& schema);
bool lists_values(const nlohmann::ordered_json& schema);
// The count that a keyword such as maxLength gives, up to 1e9; -1 without the keyword.
int64_t count_of(const SchemaAt& schema, const std::string& keyword);
// The types of a value, and those of the keyword `type`; all of them without it.
uint8_t types_of_value(const nlohmann::ordered_json& value);
uint8_t types_of_keyword(const SchemaAt& schema);
// Returns a noun for the value, as json_kind does.
std::string kind_of(const nlohmann::ordered_json& value);

[[noreturn]] void fail_schema(const std::string& pointer, const std::string& message);
std::string pointer_to(const std::string& pointer, const std::string& key);

}  // namespace gpt::grammar

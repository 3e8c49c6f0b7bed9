#pragma once

#include <cmath>
#include <string>
#include <vector>

namespace gpt::serve {

// The definition of a field in a request or response of the API.
struct ApiField {
  const char* name;
  const char* help = "";
  // JSON types and names of ApiTypes, separated by " | ". "[]" after a type is a list, and "?"
  // means that the value may be null: "string | Message[]", "number?[]".
  std::string type = {};
  const char* choices = "";        // the valid strings, separated by "|"; "": any
  std::string default_value = {};  // as JSON; "": none
  // Range of a number, of the length of a string, or of the number of objects in a list. For a list of
  // strings, `min` is the minimum length of each string and `max` the maximum number of strings.
  double min = NAN, max = NAN;
  bool required = false;  // false in a response: the field may be missing
};

// A JSON object with named fields, or an alias of other types.
struct ApiType {
  std::string name, help;
  std::vector<ApiField> fields = {};
  ApiField alias = {.name = ""};  // its type is not empty: the type is an alias
  bool in_request = false;        // fields of requests that are not required may be null
};

// Return the descriptions of all request bodies and responses, and of their parts. Tests compare the fields
// with those that the endpoints read and send.
std::vector<ApiType> request_types();
std::vector<ApiType> response_types();

}  // namespace gpt::serve

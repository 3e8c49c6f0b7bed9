#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace gpt {

enum class TextTypes : uint8_t {
  text,  // strings stay strings
  // A column of ISO 8601 dates and times becomes datetimes, as when pyarrow reads JSON.
  datetimes,
};

// A file from which documents were read.
struct DocumentFile {
  size_t begin = 0;  // index of its first document
  bool has_blank_line = false;
};

// Assigns types to the columns of objects in the same way as `datasets` 5.2:
// - All objects get the same fields. A field that was missing in an object becomes null.
// - If a column has integers and fractions, all its numbers become fractions. Integers beyond 64 bits always
//   become fractions. This also applies to numbers in lists and objects.
// - The objects of a column get their keys in the order of the first object.
// - A mixed column has values of different kinds, or objects with different keys. It keeps its values, but
//   strings that contain JSON are parsed. If there is a mixed column, fractions are rounded to 10 decimals.
// - If a file has a blank line, objects with different keys do not make the column mixed. Instead, each of
//   these objects gets the keys of all of them.
//
// `files` lists the files in order. It contains at least one file. The first file determines the types.
//
// Throws Error for a mixed column if there are blank lines or integers beyond 64 bits. In these cases,
// `datasets` usually fails too. Throws Error for a file whose types differ from the types of the first file.
// Unlike `datasets`, reads lists and objects in strings as strict JSON.
void type_documents(std::vector<nlohmann::ordered_json>& docs, TextTypes texts,
                    const std::vector<DocumentFile>& files);

}  // namespace gpt

#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace gpt {

enum class TextTypes : uint8_t {
  text,       // texts stay texts
  datetimes,  // a column of ISO 8601 dates and times becomes datetimes, as pyarrow reads JSON
};

// One of the files that documents come from.
struct DocumentFile {
  size_t begin = 0;  // the index of its first document
  bool has_blank_line = false;
};

// Types the columns of objects as `datasets` 5.2 does: a field that other objects have is null where it is
// missing; whole numbers beside fractions, or beyond 64 bits, become fractions, in lists and objects too;
// objects of a column get their keys in the order of the first. A column of values of different kinds, or of
// objects with different keys, keeps its values, except that texts with JSON in them are parsed;
// then fractions are rounded to 10 decimals. If a file has a blank line, objects with different keys get all
// of these keys instead. `files`: in order, at least one; the first one determines the types. Throws Error
// for a column of different kinds if there are blank lines or integers beyond 64 bits, as `datasets` does for
// most, and for a file whose types are not those of the first one. Not followed: lists and objects in texts
// are read as strict JSON.
void type_documents(std::vector<nlohmann::ordered_json>& docs, TextTypes texts,
                    const std::vector<DocumentFile>& files);

}  // namespace gpt

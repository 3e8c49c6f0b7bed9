#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace gpt {

enum class TextTypes : uint8_t {
  text,       // texts stay texts
  datetimes,  // a column of ISO 8601 dates and times becomes datetimes, as pyarrow reads JSON
};

// Types the columns of objects as `datasets` 5.2 does: a field that other objects have is null where it is
// missing; whole numbers beside fractions, or beyond 64 bits, become fractions, in lists and objects too;
// objects of a column get their keys in the order of the first. A column of values of different kinds, or of
// objects with different keys, keeps its values, but for texts that are JSON, which become what they say.
// Throws Error if documents with such a column have integers beyond 64 bits, as `datasets` does for most.
void type_documents(std::vector<nlohmann::ordered_json>& docs, TextTypes texts);

}  // namespace gpt

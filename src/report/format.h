#pragma once

#include <cstdint>
#include <string>

namespace gpt {

// Numbers as people read them. Values that are negative where that has no meaning, NaN or infinite give "?".

std::string format_duration(double seconds);  // "0.4 s", "42 s", "5 min 07 s", "1 h 03 min", "2 d 04 h"
std::string format_count(double count);       // three significant digits: "812", "10.8 M", "1.24 G"
std::string format_bytes(double bytes);       // powers of 1024: "812 B", "1.50 GiB"
std::string format_thousands(int64_t count);  // every digit: "10,770,816"
std::string format_percent(double share);     // 0.873 -> "87.3 %"

}  // namespace gpt

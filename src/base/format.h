#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpt {

// Formats numbers for people, in the same style everywhere in the program. Exact counts of tokens, bytes and
// steps show every digit. Rates and estimates have three significant digits ("6.05 k tokens/s"). Memory and
// file sizes, and their rates, use powers of 1024. The functions return "?" for NaN, infinity and meaningless
// negative values.

std::string format_duration(double seconds);  // "0.4 s", "42 s", "5 min 07 s", "1 h 03 min", "2 d 04 h"
std::string format_count(double count);       // three significant digits: "812", "10.8 M", "1.24 G"
std::string format_count(int64_t count);
std::string format_rate(double per_second);  // rate of countable things: "7.2", "812", "6.05 k"
std::string format_bytes(double bytes);      // powers of 1024: "812 B", "1.50 GiB"
std::string format_bytes(int64_t bytes);
std::string format_thousands(int64_t count);  // every digit: "10,770,816"
std::string format_percent(double share);     // 0.873 -> "87.3 %"
std::string format_loss(double value);        // losses, entropies, bits per byte: "1.4690"
std::string format_perplexity(double value);  // "4.35"
std::string format_ratio(double value);       // bytes per token and other ratios: "3.412"
std::string format_passes(double passes);  // number of passes over a text: "0.25", "1.94", "237", "237,000"

// Returns a number with all of its digits: "0.1". NaN gives "NaN" without a sign; infinities give "inf" and
// "-inf".
std::string format_number(double value);

// Returns a count with its noun: "1 file", "2,048 files". `plural` defaults to `singular` + "s".
std::string format_amount(int64_t count, const char* singular, const char* plural = nullptr);

// Returns the first `most` names, and the number of remaining names: "a, b, c and 2 more".
std::string format_list(std::span<const std::string> names, size_t most);
std::string format_choices(std::span<const std::string> names);  // "a, b or c"

}  // namespace gpt

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpt {

// Numbers as people read them, in one style wherever the program shows them: counts of tokens, bytes and
// steps with every digit where they are exact, rates and estimates with three significant digits ("6.05 k
// tokens/s"), memory, files and their rates in powers of 1024. Values that are negative where that has no
// meaning, NaN or infinite give "?".

std::string format_duration(double seconds);  // "0.4 s", "42 s", "5 min 07 s", "1 h 03 min", "2 d 04 h"
std::string format_count(double count);       // three significant digits: "812", "10.8 M", "1.24 G"
std::string format_count(int64_t count);
std::string format_rate(double per_second);  // of countable things: "7.2", "812", "6.05 k"
std::string format_bytes(double bytes);      // powers of 1024: "812 B", "1.50 GiB"
std::string format_bytes(int64_t bytes);
std::string format_thousands(int64_t count);  // every digit: "10,770,816"
std::string format_percent(double share);     // 0.873 -> "87.3 %"
std::string format_loss(double value);        // losses, entropies, bits per byte: "1.4690"
std::string format_perplexity(double value);  // "4.35"
std::string format_ratio(double value);       // bytes per token and other ratios: "3.412"
std::string format_passes(double passes);     // times through a text: "0.25", "1.94", "237", "237,000"

// All digits of a number: "0.1"; "NaN" without a sign, "inf", "-inf".
std::string format_number(double value);

// "1 file", "2,048 files"; `plural` where it is not the word with an s.
std::string format_amount(int64_t count, const char* singular, const char* plural = nullptr);

// "a, b, c and 2 more": at most so many of the names.
std::string format_list(std::span<const std::string> names, size_t most);
std::string format_choices(std::span<const std::string> names);  // "a, b or c"

}  // namespace gpt

#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace gpt {

// Everything on standard input. Throws Error beyond 4 GiB.
std::string read_input();

// Calls f with complete lines, as many as have arrived, as long as it returns true; the last one may lack its
// line end. `line` is the number of the first. Throws Error for a line of more than 256 MiB.
void for_each_input_lines(const std::function<bool(std::string_view lines, int64_t line)>& f);

}  // namespace gpt

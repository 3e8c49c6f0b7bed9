#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Everything on standard input. Throws Error beyond 4 GiB.
std::string read_input();

// A line that says which flag reads a file, where a text is the name of one, such as notes.txt; else "".
std::string note_of_file(const std::string& text, const char* flag);

// Ids between blanks, or with one comma between two of them. Throws Error naming the line of a source,
// invalid_argument for that of a flag, which has none.
std::vector<int32_t> parse_ids(std::string_view text, const std::string& source, int64_t line = 0);

// Calls f with complete lines, as many as have arrived, as long as it returns true; the last one may lack its
// line end. `line` is the number of the first. Throws Error for a line of more than 256 MiB.
void for_each_input_lines(const std::function<bool(std::string_view lines, int64_t line)>& f);

}  // namespace gpt

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Reads all of standard input. Throws Error if it exceeds 4 GiB.
std::string read_input();

// If `text` is the name of an existing file, such as notes.txt, returns a note that names the flag that reads
// files. Otherwise returns "".
std::string note_of_file(const std::string& text, const char* flag);

// Parses ids that are separated by white space or by single commas. Throws Error naming the source and line.
// For a flag, line is 0 and the error is invalid_argument.
std::vector<int32_t> parse_ids(std::string_view text, const std::string& source, int64_t line = 0);

// Reads standard input and calls f with all complete lines that have arrived, until f returns false. The last
// line may lack its newline. `line` is the number of the first line of the call. Throws Error for a line
// longer than 256 MiB.
void for_each_input_lines(const std::function<bool(std::string_view lines, int64_t line)>& f);

}  // namespace gpt

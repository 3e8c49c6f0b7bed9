#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Quotes a word for a shell. Returns the word unchanged if no quotes are necessary. Otherwise, returns it in
// single quotes.
std::string shell_quoted(std::string_view word);

// Returns the command-line flag of a setting: --n-embd for n_embd.
std::string flag_of(std::string_view key);

// Joins words to a command line. Words are quoted if necessary.
std::string shell_command(const std::vector<std::string>& words);

// Returns the last line of a command's output, which suggests the next command: "next: gpt generate
// runs/book\n".
std::string next_line(const std::vector<std::string>& words);
// Returns the same line, with `program` before the words. `program` is not quoted again, so it can consist of
// several words, such as "gpt launch -n 2 --".
std::string next_line(const std::string& program, const std::vector<std::string>& words);

}  // namespace gpt

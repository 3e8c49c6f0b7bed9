#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// A word as a shell reads it back: as it is where that is safe, else in single quotes.
std::string shell_quoted(std::string_view word);

// The flag of a setting, as a word of a command: --n-embd of n_embd.
std::string flag_of(std::string_view key);

// Words as one command line, each quoted where it must be.
std::string shell_command(const std::vector<std::string>& words);

// The last line of a command for people, what one does next: "next: gpt generate runs/book\n".
std::string next_line(const std::vector<std::string>& words);
// The same behind words that are quoted already, as "gpt launch -n 2 --".
std::string next_line(const std::string& program, const std::vector<std::string>& words);

}  // namespace gpt

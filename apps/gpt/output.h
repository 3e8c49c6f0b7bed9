#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// The reader of standard output has gone; nothing more is wanted.
class OutputClosed : public std::runtime_error {
 public:
  OutputClosed() : std::runtime_error("standard output was closed") {}
};

// Writes data to standard output at once. Throws OutputClosed when nobody reads any more, Error when the
// data cannot be written (a full disk, say).
void write_output(std::string_view text);

// Writes to standard error; failures are ignored.
void write_note(std::string_view text);

// Tells people what one does next, as the last line on standard error. Commands call it when they have made
// or shown something, but not with --json; those whose output is a stream of text do so on a terminal only.
void write_next(const std::vector<std::string>& words);

// A first training on a text, for write_next.
std::vector<std::string> train_command(const std::vector<std::string>& data, const std::string& tokenizer);

bool output_is_terminal();
bool notes_are_on_terminal();

}  // namespace gpt

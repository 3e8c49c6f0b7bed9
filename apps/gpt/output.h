#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_blocks.h"
#include "report/progress.h"

namespace gpt {

// Thrown when the reader of standard output has closed it, so no more output is needed.
class OutputClosed : public std::runtime_error {
 public:
  OutputClosed() : std::runtime_error("standard output was closed") {}
};

// Writes to standard output, unbuffered. Throws OutputClosed if the reader has closed it, and Error if
// writing fails, for example because the disk is full.
void write_output(std::string_view text);

// Writes to standard error, with settings shown as flags (shown_flags.h). Ignores write errors. In a
// distributed run, only rank 0 writes.
void write_note(std::string_view text);
// Writes the error that ends the program, on any rank. Ranks other than 0 add their rank, and first wait for
// rank 0, whose error is probably the same.
void write_error(std::string_view text);

// Suggests the next command to the user, as the last line on standard error. Commands call it after they have
// written or shown something, unless --json is given. Commands that print a stream of text only call it on a
// terminal.
void write_next(const std::vector<std::string>& words);

// Like write_next, after one of several tasks: suggests the merge if no task is missing, else lists the
// missing tasks.
void write_next_of_task(const std::vector<std::string>& merge, const std::vector<std::string>& missing);

// Returns the command of a first training run on a text, for write_next.
std::vector<std::string> train_command(const std::vector<std::string>& data, const std::string& tokenizer,
                                       const FolderFilter& filter = {}, const std::string& field = "text");

bool output_is_terminal();
bool notes_are_on_terminal();

// A kind of output file. The program recognizes existing files of a kind by the text `mark`.
struct OutputKind {
  const char* mark;            // text in the first 4 KiB of every such file
  const char* extension = "";  // "": any extension
};
inline constexpr OutputKind kTracePage = {"<title>gpt trace", ".html"};
inline constexpr OutputKind kTracePicture = {"class=\"gc\"", ".svg"};
inline constexpr OutputKind kScoresPage = {"<title>Evaluation of ", ".html"};
inline constexpr OutputKind kComparisonPage = {"raining run",
                                               ".html"};  // in "2 training runs" and "Training run a"
inline constexpr OutputKind kLossPicture = {"<title>Loss<", ".svg"};

// Checks an output file before the work starts. Throws invalid_argument if the extension belongs to another
// format. Throws Error if the file must not be written: it is a folder, a page or picture in the folder of a
// run or sweep, or an existing file of another kind. Devices and pipes are always allowed.
void check_output_file(const std::string& flag, const std::string& path, const OutputKind& kind);

// Checks an output file of a kind that cannot be recognized. An existing file is only replaced with --force,
// and an input file is never replaced.
void check_new_file(const std::string& flag, const std::string& path, bool force,
                    const std::vector<std::string>& inputs = {});

// Throws invalid_argument if the name of an output folder looks like a file name, for example model.txt.
// Existing folders and names that end in a slash are accepted. known: the file extensions that the command
// writes.
void check_folder_name(const std::string& path, const std::vector<std::string>& known);

// A progress line. A terminal shows it in place; otherwise it is printed as a separate line at intervals.
class ProgressNote {
 public:
  explicit ProgressNote(std::string what);
  ~ProgressNote();
  ProgressNote(const ProgressNote&) = delete;
  ProgressNote& operator=(const ProgressNote&) = delete;

  // Shows `done` of `total` (in any unit), followed by `details`.
  void update(double done, double total, const std::string& details = "");

 private:
  ProgressOutput output_;
  std::string what_;
  double start_, shown_at_ = 0;
  bool line_open_ = false;
};

}  // namespace gpt

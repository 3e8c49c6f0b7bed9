#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_blocks.h"
#include "report/progress.h"

namespace gpt {

// The reader of standard output has gone; nothing more is wanted.
class OutputClosed : public std::runtime_error {
 public:
  OutputClosed() : std::runtime_error("standard output was closed") {}
};

// Writes data to standard output at once. Throws OutputClosed when nobody reads any more, Error when the
// data cannot be written (a full disk, say).
void write_output(std::string_view text);

// Writes to standard error, with the flags of settings (shown_flags.h); failures are ignored. Of several
// processes that share a command only the first one speaks.
void write_note(std::string_view text);
// The same of what ends the program, in any process: that of another one names it, and lets the first one
// speak first, whose error is probably the same.
void write_error(std::string_view text);

// Tells people what one does next, as the last line on standard error. Commands call it when they have made
// or shown something, but not with --json; those whose output is a stream of text do so on a terminal only.
void write_next(const std::vector<std::string>& words);

// The same behind one of several tasks: the merge, once no task is missing (those that are, in words).
void write_next_of_task(const std::vector<std::string>& merge, const std::vector<std::string>& missing);

// A first training on a text, for write_next.
std::vector<std::string> train_command(const std::vector<std::string>& data, const std::string& tokenizer,
                                       const FolderFilter& filter = {}, const std::string& field = "text");

bool output_is_terminal();
bool notes_are_on_terminal();

// A kind of file that commands write.
struct OutputKind {
  const char* mark;            // in the first 4 KiB of each
  const char* extension = "";  // "": any
};
inline constexpr OutputKind kTracePage = {"<title>gpt trace", ".html"};
inline constexpr OutputKind kTracePicture = {"class=\"gc\"", ".svg"};
inline constexpr OutputKind kScoresPage = {"<title>Evaluation of ", ".html"};
inline constexpr OutputKind kComparisonPage = {"raining run",
                                               ".html"};  // "2 training runs", "Training run a"
inline constexpr OutputKind kLossPicture = {"<title>Loss<", ".svg"};

// Throws invalid_argument when the name that a flag gives ends in the extension of another format. Throws
// Error when the file must not be written: a folder, a page or picture that a run or a sweep keeps in its own
// folder, or a file that is there already and is not of this kind. Devices and pipes may always be written.
// Call it before the work.
void check_output_file(const std::string& flag, const std::string& path, const OutputKind& kind);

// The same for files that have no mark: one that is there already is replaced only with --force, and never
// when it is one of the inputs.
void check_new_file(const std::string& flag, const std::string& path, bool force,
                    const std::vector<std::string>& inputs = {});

// Throws invalid_argument if a name for a folder ends in what looks like the extension of a file, as
// model.txt does, and is not a folder yet; model.txt/ is one in any case. known: the extensions of files that
// the command writes.
void check_folder_name(const std::string& path, const std::vector<std::string>& known);

// One line about how far a job has come: rewritten in place on a terminal, else a line of its own now and
// then.
class ProgressNote {
 public:
  explicit ProgressNote(std::string what);
  ~ProgressNote();
  ProgressNote(const ProgressNote&) = delete;
  ProgressNote& operator=(const ProgressNote&) = delete;

  // done of total (any unit) and, behind it, whatever else is worth saying.
  void update(double done, double total, const std::string& details = "");

 private:
  ProgressOutput output_;
  std::string what_;
  double start_, shown_at_ = 0;
  bool line_open_ = false;
};

}  // namespace gpt

#include "output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/ascii.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "options.h"
#include "report/next_step.h"
#include "report/utf8_text.h"
#include "shown_flags.h"
#include "world.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

// Returns true if the path is an existing file, whose content would be lost.
bool holds_something(const std::string& flag, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail("{}: {} is a folder; name a file", flag, path);
  return fs::is_regular_file(status);
}

std::string beginning(const std::string& path) {
  std::string bytes(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

// Returns true for ".txt", but not for the ".5" of llama-v1.5.
bool is_like_an_extension(std::string_view extension) {
  constexpr size_t kLongest = 8;
  return extension.size() > 1 && extension.size() <= kLongest && !is_ascii_digit(extension[1]) &&
         std::ranges::all_of(extension.substr(1), is_ascii_alnum);
}

// Returns true if the file belongs to the folder of a run or sweep.
bool is_file_of_run(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (name == "report.html" || name == "loss.svg")
    return fs::exists(path.parent_path() / "metrics.jsonl", error);
  return (name == "sweep.html" || name == "sweep.svg") &&
         fs::exists(path.parent_path() / "sweep.json", error);
}

constexpr double kLiveSeconds = 0.1, kPlainSeconds = 10;

}  // namespace

void write_output(std::string_view text) {
  if (!is_first_process()) return;
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) throw OutputClosed();
    if (n < 0) fail("cannot write to standard output: {}", std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void write_note(std::string_view text) {
  if (is_first_process()) write_ignoring_errors(STDERR_FILENO, show_flags(text));
}

void write_error(std::string_view line) {
  constexpr unsigned kWait = 2;  // seconds that other ranks wait for rank 0
  const std::string text = show_flags(line);
  if (is_first_process()) return write_ignoring_errors(STDERR_FILENO, text);
  ::sleep(kWait);
  write_ignoring_errors(STDERR_FILENO, fmt::format("rank {}: {}", rank_of_environment(), text));
}

void write_next(const std::vector<std::string>& words) {
  const bool shared = words.size() > 1 && std::ranges::count(shared_commands(), words[1]) > 0;
  write_note(
      visible_text(shared ? next_line(program(), {words.begin() + 1, words.end()}) : next_line(words), true));
}

void write_next_of_task(const std::vector<std::string>& merge, const std::vector<std::string>& missing) {
  if (missing.empty()) return write_next(merge);
  constexpr size_t kShown = 8;
  write_note(fmt::format("tasks that are not complete: {}; when they are complete, run: {}\n",
                         format_list(missing, kShown), visible_text(shell_command(merge), true)));
}

std::vector<std::string> train_command(const std::vector<std::string>& data, const std::string& tokenizer,
                                       const FolderFilter& filter, const std::string& field) {
  std::vector<std::string> words = {"gpt", "train"};
  words.insert(words.end(), data.begin(), data.end());
  for (const std::string& pattern : filter.include)
    words.insert(words.end(), {"--include", pattern});
  for (const std::string& pattern : filter.exclude)
    words.insert(words.end(), {"--exclude", pattern});
  if (field != "text") words.insert(words.end(), {"--field", field});
  words.insert(words.end(), {"--tokenizer", tokenizer, "--preset", "tiny", "--out", "run"});
  return words;
}

bool output_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool notes_are_on_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

void check_output_file(const std::string& flag, const std::string& path, const OutputKind& kind) {
  if (path.empty()) return;
  const std::string_view wanted = kind.extension;
  const std::string extension = lower_case(fs::path(path).extension().string());
  if (!wanted.empty() && !extension.empty() && extension != wanted)
    fail_usage("{}: expected a file name that ends in {}, found {}", flag, wanted, path);
  if (is_file_of_run(path)) {
    const fs::path file = path;
    const std::string other = file.stem().string() + "-2" + file.extension().string();
    fail("{}: {} belongs to the run or sweep in that folder; choose a different name, such as {}", flag, path,
         (file.parent_path() / other).string());
  }
  if (!holds_something(flag, path)) return;
  const std::string bytes = beginning(path);
  if (bytes.empty() || bytes.find(kind.mark) != std::string::npos) return;
  fail("{}: {} already exists and was not written by this command; move it, or choose a different name", flag,
       path);
}

void check_new_file(const std::string& flag, const std::string& path, bool force,
                    const std::vector<std::string>& inputs) {
  if (!holds_something(flag, path)) return;
  for (const std::string& input : inputs) {
    std::error_code error;
    if (fs::equivalent(path, input, error) && !error)
      fail("{}: {} is the same file as the input {}; choose a different name", flag, path, input);
  }
  if (!force) fail("{}: {} already exists; choose a different name, or add --force", flag, path);
}

void check_folder_name(const std::string& path, const std::vector<std::string>& known) {
  const std::string extension = fs::path(path).extension().string();
  if (is_folder(path) || !is_like_an_extension(extension) || std::ranges::count(known, extension) > 0) return;
  fail_usage(
      "{0}: cannot write files that end in {1}; expected a folder, or a file that ends in {2}; for a folder "
      "of this name, write {0}/",
      path, extension, format_choices(known));
}

ProgressNote::ProgressNote(std::string what)
    : output_(progress_output(2)), what_(std::move(what)), start_(output_.now_s()), shown_at_(start_) {}

ProgressNote::~ProgressNote() {
  if (line_open_) output_.write("\r\x1b[K");
}

void ProgressNote::update(double done, double total, const std::string& details) {
  const double now = output_.now_s();
  if (now - shown_at_ < (output_.style.live ? kLiveSeconds : kPlainSeconds)) return;
  shown_at_ = now;
  std::string line = what_;
  if (total > 0) {
    const double share = std::clamp(done / total, 0.0, 1.0);
    line += fmt::format(": {:3.0f} %", std::floor(100 * share));
    if (share > 0) line += "  ETA " + format_duration((now - start_) * (1 - share) / share);
  }
  if (!details.empty()) line += "  " + details;
  if (output_.style.live) {
    output_.write("\r" + cut_to_width(line, std::max(output_.width() - 1, 1)) + "\x1b[K");
    line_open_ = true;
  } else {
    output_.write(line + "\n");
  }
}

}  // namespace gpt

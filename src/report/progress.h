#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// The state of training after a step. Optional values that are not set are left out of the line.
struct Progress {
  int64_t step = 0;   // completed steps
  int64_t total = 0;  // steps of the whole run; 0 if unknown
  double loss = 0;
  std::optional<double> val_loss;
  std::optional<double> floor;  // lowest possible loss of any model, if known
  std::optional<double> lr;
  std::optional<double> grad_norm;
  std::optional<double> tokens_per_s;
  std::optional<double> limit_share;  // share of the machine's measured peak rate; 1 is all of it
  std::optional<double> eta_s;
};

struct TerminalStyle {
  bool live = false;  // redraw one line in place
  bool colour = false;
  bool unicode = false;  // draw the bar with block characters instead of # and .
};

// Determines how to write to a stream from the kind of the stream and the environment variables NO_COLOR,
// TERM, CI, LC_ALL, LC_CTYPE and LANG. `variable` returns the value of an environment variable, or null.
TerminalStyle terminal_style(bool is_terminal, const std::function<const char*(const char*)>& variable);

// Returns a line of at most `width` display columns (without colour codes) and without a newline. The least
// important values are left out first. A bar fills the remaining columns.
std::string format_live_line(const Progress& progress, int width, const TerminalStyle& style);

// Returns the same values as a line for a log file. This line has no bar, no colours and no maximum length.
std::string format_plain_line(const Progress& progress);

// The destination of progress output. Tests replace its functions.
struct ProgressOutput {
  std::function<void(std::string_view)> write;
  std::function<int()> width;     // columns of the terminal
  std::function<double()> now_s;  // a monotonic clock
  TerminalStyle style;
  bool is_terminal = false;  // on a terminal, control characters in a text must be made visible
};

// Writes a text and ignores errors, because a closed terminal must not stop a run.
void write_ignoring_errors(int fd, std::string_view text);

// Returns a ProgressOutput that writes to a file descriptor (2 = stderr). Its style depends on the
// environment variables. Write errors are ignored, because a closed terminal must not stop a run.
ProgressOutput progress_output(int fd);

struct ProgressPace {
  int64_t log_every = 1;      // plain lines: minimum number of steps between two lines ...
  double plain_seconds = 5;   // ... and minimum number of seconds
  double live_seconds = 0.1;  // live line: seconds between two redraws
};

// Shows the progress of a run. Call update after every step, message for all other output during the run, and
// finish at the end, also if the run fails. The destructor only moves the cursor to a new line.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressOutput output, ProgressPace pace = {});
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const Progress& progress);  // always shows the first and the last step
  void message(std::string_view text);    // prints whole lines above the live line
  // Prints a text that a model generated. On a terminal, control characters are shown as visible symbols.
  void model_text(std::string_view text);
  void finish();  // shows the latest state if it was not shown yet

 private:
  bool due(double now) const;
  void show(double now);

  ProgressOutput output_;
  ProgressPace pace_;
  std::optional<Progress> newest_;
  bool newest_shown_ = true;
  std::optional<double> shown_at_;
  int64_t shown_step_ = 0;
  bool line_open_ = false;  // the cursor is on the live line
};

}  // namespace gpt

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// What the trainer knows after a step. Optional values are left out of the line.
struct Progress {
  int64_t step = 0;   // steps done
  int64_t total = 0;  // steps of the whole run; 0 = unknown
  double loss = 0;
  std::optional<double> val_loss;
  std::optional<double> floor;  // the loss that no model can beat, if known
  std::optional<double> lr;
  std::optional<double> grad_norm;
  std::optional<double> tokens_per_s;
  std::optional<double> limit_share;  // share of the machine's measured limit, 1 = all of it
  std::optional<double> eta_s;
};

struct TerminalStyle {
  bool live = false;  // rewrite one line in place
  bool colour = false;
  bool unicode = false;  // bar of block characters instead of # and .
};

// How to write to a stream, from whether it is a terminal and from NO_COLOR, TERM, CI, LC_ALL, LC_CTYPE and
// LANG. `variable` gives an environment variable, or null.
TerminalStyle terminal_style(bool is_terminal, const std::function<const char*(const char*)>& variable);

// One line of at most `width` display columns (colour codes not counted), without a line end. What matters
// least is left out first; a bar takes the room that remains.
std::string format_live_line(const Progress& progress, int width, const TerminalStyle& style);

// The same facts for a log file: no bar, no colour, any length.
std::string format_plain_line(const Progress& progress);

// Where progress goes. The functions are replaced in tests.
struct ProgressOutput {
  std::function<void(std::string_view)> write;
  std::function<int()> width;     // columns of the terminal
  std::function<double()> now_s;  // a monotonic clock
  TerminalStyle style;
  bool is_terminal = false;  // which would obey control characters in a text
};

// Writes all of a text as far as that goes: a closed terminal must not stop a run.
void write_ignoring_errors(int fd, std::string_view text);

// Output to a file descriptor (2 = stderr) in the style of the environment. Failing writes are ignored:
// a closed terminal must not stop a run.
ProgressOutput progress_output(int fd);

struct ProgressPace {
  int64_t log_every = 1;      // plain lines: at least this many steps apart ...
  double plain_seconds = 5;   // ... and this much time
  double live_seconds = 0.1;  // live line: time between two redraws
};

// Shows a run. Call update after every step, message for anything else that is printed meanwhile, and finish
// at the end, however the run ends; the destructor only leaves the cursor on a fresh line.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressOutput output, ProgressPace pace = {});
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const Progress& progress);  // the first and the last step are always shown
  void message(std::string_view text);    // whole lines of their own, above the live line
  // The same for a text that a model wrote: on a terminal its control characters are shown as pictures.
  void model_text(std::string_view text);
  void finish();  // shows the newest state if it was not shown yet

 private:
  bool due(double now) const;
  void show(double now);

  ProgressOutput output_;
  ProgressPace pace_;
  std::optional<Progress> newest_;
  bool newest_shown_ = true;
  std::optional<double> shown_at_;
  int64_t shown_step_ = 0;
  bool line_open_ = false;  // the cursor stands on the live line
};

}  // namespace gpt

#include "progress_note.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr double kLiveSeconds = 0.1, kPlainSeconds = 10;

}  // namespace

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

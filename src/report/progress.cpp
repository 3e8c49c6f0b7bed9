#include "report/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/ranges.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr int kDefaultWidth = 80, kMinBar = 8, kMaxBar = 24;
constexpr int kBarRank = 6;  // segments of this rank and above are dropped to make room for the bar
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kRed = "\x1b[1;31m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kReset = "\x1b[0m";

struct Segment {
  std::string text;
  int rank;            // the segment with the highest rank is left out first
  const char* colour;  // may be null
};

std::string loss_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : format_number(value);
}

double share_done(const Progress& p) {
  if (p.total <= 0) return 0;
  return std::clamp(static_cast<double>(p.step) / static_cast<double>(p.total), 0.0, 1.0);
}

// Returns the segments in reading order.
std::vector<Segment> make_segments(const Progress& p) {
  std::vector<Segment> out;
  const auto add = [&](int rank, const char* colour, std::string text) {
    out.push_back({std::move(text), rank, colour});
  };
  if (p.total > 0) {
    add(6, nullptr, fmt::format("{:3.0f} %", std::floor(share_done(p) * 100)));
    add(0, nullptr, fmt::format("step {}/{}", format_thousands(p.step), format_thousands(p.total)));
  } else {
    add(0, nullptr, fmt::format("step {}", format_thousands(p.step)));
  }
  add(1, std::isfinite(p.loss) ? kBold : kRed, "loss " + loss_text(p.loss));
  if (p.val_loss) add(3, std::isfinite(*p.val_loss) ? nullptr : kRed, "val " + loss_text(*p.val_loss));
  if (p.floor) add(9, kDim, "floor " + loss_text(*p.floor));
  if (p.lr) add(8, kDim, fmt::format("lr {:.2e}", *p.lr));
  if (p.grad_norm) add(7, kDim, fmt::format("norm {:.2f}", *p.grad_norm));
  if (p.tokens_per_s) add(4, nullptr, format_count(*p.tokens_per_s) + " tok/s");
  if (p.limit_share && std::isfinite(*p.limit_share))
    add(5, kDim, fmt::format("{:.0f} % of peak", *p.limit_share * 100));
  if (p.eta_s) add(2, nullptr, "ETA " + format_duration(*p.eta_s));
  return out;
}

// Returns the width of the segments with two spaces between them.
int joined_width(const std::vector<Segment>& segments) {
  const auto width = [](const Segment& segment) { return display_width(segment.text) + 2; };
  return segments.empty() ? 0 : sum_of(segments, width) - 2;
}

// Drops segments, highest rank first, until the rest fits. Keeps segments with a rank below `lowest_rank`.
// Returns false if the rest does not fit.
bool drop_until_fits(std::vector<Segment>& segments, int width, int lowest_rank) {
  while (joined_width(segments) > width) {
    const auto last = std::ranges::max_element(segments, {}, &Segment::rank);
    if (last->rank < lowest_rank) return false;
    segments.erase(last);
  }
  return true;
}

std::string repeat(const char* text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i)
    out += text;
  return out;
}

std::string coloured(const std::string& text, const char* colour, const TerminalStyle& style) {
  return style.colour && colour != nullptr ? colour + text + kReset : text;
}

std::string bar(double share, int cells, const TerminalStyle& style) {
  const int full = static_cast<int>(share * cells);
  const std::string done = repeat(style.unicode ? "█" : "#", full);
  const std::string rest = repeat(style.unicode ? "░" : ".", cells - full);
  return coloured(done, kGreen, style) + coloured(rest, kDim, style);
}

std::string joined(const std::vector<Segment>& segments, const TerminalStyle& style) {
  std::string line;
  for (const Segment& segment : segments) {
    if (!line.empty()) line += "  ";
    line += coloured(segment.text, segment.colour, style);
  }
  return line;
}

bool says_utf8(const char* locale) {
  const std::string text = locale;
  return text.find("UTF-8") != std::string::npos || text.find("utf8") != std::string::npos ||
         text.find("UTF8") != std::string::npos || text.find("utf-8") != std::string::npos;
}

int terminal_width(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int width = columns != nullptr ? std::atoi(columns) : 0;
  return width > 0 ? width : kDefaultWidth;
}

}  // namespace

void write_ignoring_errors(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

TerminalStyle terminal_style(bool is_terminal, const std::function<const char*(const char*)>& variable) {
  const auto is_set = [&](const char* name) {
    const char* value = variable(name);
    return value != nullptr && value[0] != '\0';
  };
  TerminalStyle style;
  const bool dumb = !is_set("TERM") || std::string_view(variable("TERM")) == "dumb";
  style.live = is_terminal && !dumb && !is_set("CI");
  style.colour = style.live && !is_set("NO_COLOR");
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!is_set(name)) continue;
    style.unicode = says_utf8(variable(name));
    break;  // the first variable that is set decides, as in setlocale(3)
  }
  return style;
}

std::string format_live_line(const Progress& progress, int width, const TerminalStyle& style) {
  std::vector<Segment> segments = make_segments(progress), beside_bar = segments;
  if (progress.total > 0 && drop_until_fits(beside_bar, width - kMinBar - 2, kBarRank)) {
    const int cells = std::min(width - joined_width(beside_bar) - 2, kMaxBar);
    return bar(share_done(progress), cells, style) + "  " + joined(beside_bar, style);
  }
  if (drop_until_fits(segments, width, 1)) return joined(segments, style);
  return cut_to_width(joined(segments, {}), width);
}

std::string format_plain_line(const Progress& progress) {
  return joined(make_segments(progress), {});
}

ProgressOutput progress_output(int fd) {
  ProgressOutput output;
  output.write = [fd](std::string_view text) { write_ignoring_errors(fd, text); };
  output.width = [fd] { return terminal_width(fd); };
  output.now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  output.is_terminal = isatty(fd) == 1;
  output.style = terminal_style(output.is_terminal, [](const char* name) { return std::getenv(name); });
  return output;
}

ProgressLine::ProgressLine(ProgressOutput output, ProgressPace pace)
    : output_(std::move(output)), pace_(pace) {}

ProgressLine::~ProgressLine() {
  if (line_open_) output_.write("\n");
}

void ProgressLine::update(const Progress& progress) {
  newest_ = progress;
  newest_shown_ = false;
  const double now = output_.now_s();
  if (due(now)) show(now);
}

bool ProgressLine::due(double now) const {
  if (!shown_at_ || newest_->step == newest_->total) return true;
  if (output_.style.live) return now - *shown_at_ >= pace_.live_seconds;
  return newest_->step - shown_step_ >= pace_.log_every && now - *shown_at_ >= pace_.plain_seconds;
}

void ProgressLine::show(double now) {
  if (output_.style.live) {
    // The last column stays empty, because a character there makes some terminals wrap.
    const std::string line = format_live_line(*newest_, std::max(output_.width() - 1, 1), output_.style);
    output_.write("\r" + line + "\x1b[K");
    line_open_ = true;
  } else {
    output_.write(format_plain_line(*newest_) + "\n");
  }
  newest_shown_ = true;
  shown_at_ = now;
  shown_step_ = newest_->step;
}

void ProgressLine::message(std::string_view text) {
  const bool redraw = line_open_;
  std::string out = redraw ? "\r\x1b[K" : "";
  out += text;
  if (!text.ends_with('\n')) out += '\n';
  output_.write(out);
  if (redraw) show(output_.now_s());
}

void ProgressLine::model_text(std::string_view text) {
  message(output_.is_terminal ? visible_text(text, true) : std::string(text));
}

void ProgressLine::finish() {
  if (newest_ && !newest_shown_) show(output_.now_s());
  if (line_open_) output_.write("\n");
  line_open_ = false;
}

}  // namespace gpt

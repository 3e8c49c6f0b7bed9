#include "report/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/utf8_text.h"
#include "support/names.h"

namespace gpt {
namespace {

using test::Fact;
using test::names;

Progress full_progress() {
  Progress p;
  p.step = 500;
  p.total = 2000;
  p.loss = 1.23456;
  p.val_loss = 1.3;
  p.floor = 0.412;
  p.lr = 9.5e-4;
  p.grad_norm = 0.534;
  p.tokens_per_s = 12345;
  p.limit_share = 0.87;
  p.eta_s = 3803;
  return p;
}

std::string without_colours(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

TerminalStyle style_of(bool is_terminal, const std::map<std::string, std::string>& environment) {
  return terminal_style(is_terminal, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Progress, PlainLineHasEverything) {
  EXPECT_TRUE(
      names(format_plain_line(full_progress()), {"25 %", "500/2,000", "1.2346", "1.3000", "0.4120",
                                                 "9.50e-04", "0.53", "12.3 k tok/s", "87 %", "1 h 03 min"}));
}

TEST(Progress, WhatIsUnknownIsLeftOut) {
  Progress p;
  p.step = 3;
  p.loss = 2;
  const std::string line = format_plain_line(p);
  EXPECT_TRUE(names(line, {3, "2.0000"}));
  EXPECT_EQ(std::ranges::count_if(line, [](char c) { return c >= '0' && c <= '9'; }), 6) << line;
  EXPECT_EQ(format_live_line(p, 80, {}), line);
}

TEST(Progress, NeverWiderThanTheTerminal) {
  for (const bool unicode : {false, true}) {
    for (const bool colour : {false, true}) {
      for (int width = 0; width < 220; ++width) {
        const std::string line = format_live_line(full_progress(), width, {true, colour, unicode});
        ASSERT_LE(display_width(without_colours(line)), width) << line;
      }
    }
  }
}

TEST(Progress, LeastImportantGoesFirst) {
  const auto line = [](int width) { return format_live_line(full_progress(), width, {}); };
  const auto narrowest = [&](const Fact& fact) {
    int width = 220;
    while (names(line(width), {fact}))
      --width;
    return width + 1;
  };
  const auto least = {narrowest("0.4120"), narrowest("9.50e-04"), narrowest("0.53")},
             middle = {narrowest("1.3000"), narrowest("12.3 k tok/s"), narrowest("87 %")};
  EXPECT_GT(std::min(least), std::max(middle));
  EXPECT_GT(std::min(middle), narrowest("1 h 03 min"));
  EXPECT_GT(narrowest("1 h 03 min"), narrowest("1.2346"));
  EXPECT_GT(narrowest("1.2346"), narrowest("500/2,000"));
  int width = std::max(middle);
  while (width < 220 && !line(width).starts_with('#'))
    ++width;
  EXPECT_TRUE(line(width).starts_with("##......  ")) << "the smallest bar";
  EXPECT_TRUE(line(5).ends_with("…"));
}

TEST(Progress, BarShowsTheShare) {
  Progress p;
  p.step = 1;
  p.total = 4;
  const std::string line = format_live_line(p, 200, {true, false, false});
  EXPECT_TRUE(line.starts_with("######..................  ")) << line;
  EXPECT_TRUE(format_live_line(p, 200, {true, false, true}).starts_with("██████░")) << line;
  p.step = 9;  // more than the total: the bar is full, nothing else
  EXPECT_TRUE(format_live_line(p, 200, {true, false, false}).starts_with("########################  "));
}

TEST(Progress, ColourOnlyWhereAllowed) {
  EXPECT_EQ(format_live_line(full_progress(), 200, {true, false, true}).find('\x1b'), std::string::npos);
  EXPECT_NE(format_live_line(full_progress(), 200, {true, true, true}).find('\x1b'), std::string::npos);
}

TEST(Progress, NotANumberIsShown) {
  Progress p = full_progress();
  p.loss = std::nan("");
  p.eta_s = std::nan("");
  const std::string line = format_plain_line(p);
  EXPECT_TRUE(names(line, {"NaN", "?"}));
}

TEST(Progress, StyleFollowsTheEnvironment) {
  EXPECT_TRUE(style_of(true, {{"TERM", "xterm"}}).live);
  EXPECT_TRUE(style_of(true, {{"TERM", "xterm"}}).colour);
  EXPECT_FALSE(style_of(false, {{"TERM", "xterm"}}).live);
  EXPECT_FALSE(style_of(true, {}).live);
  EXPECT_FALSE(style_of(true, {{"TERM", "dumb"}}).live);
  EXPECT_FALSE(style_of(true, {{"TERM", "xterm"}, {"CI", "true"}}).live);
  EXPECT_TRUE(style_of(true, {{"TERM", "xterm"}, {"NO_COLOR", "1"}}).live);
  EXPECT_FALSE(style_of(true, {{"TERM", "xterm"}, {"NO_COLOR", "1"}}).colour);
  EXPECT_TRUE(style_of(true, {{"TERM", "xterm"}, {"NO_COLOR", ""}}).colour);
  EXPECT_TRUE(style_of(true, {{"LANG", "en_GB.UTF-8"}}).unicode);
  EXPECT_FALSE(style_of(true, {{"LANG", "en_GB.UTF-8"}, {"LC_ALL", "C"}}).unicode);
}

// An output with a simulated clock.
struct Recorder {
  std::string text;
  double now = 0;
  int width = 80;

  ProgressOutput output(bool live) {
    return {[this](std::string_view part) { text += part; },
            [this] { return width; },
            [this] { return now; },
            {live, false, false}};
  }
  size_t lines() const { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }
  size_t redraws() const { return static_cast<size_t>(std::count(text.begin(), text.end(), '\r')); }
};

Progress at_step(int64_t step) {
  Progress p;
  p.step = step;
  p.total = 100;
  p.loss = 1;
  return p;
}

TEST(Progress, PlainLinesComeNowAndThen) {
  Recorder recorder;
  {
    ProgressLine line(recorder.output(false), {.log_every = 10, .plain_seconds = 5, .live_seconds = 0.1});
    for (int64_t step = 1; step <= 99; ++step) {
      recorder.now += 1;  // a line every 10 steps: 10 steps take longer than 5 seconds
      line.update(at_step(step));
    }
    EXPECT_EQ(recorder.lines(), 10u);  // steps 1, 11, ..., 91
    line.update(at_step(100));
    line.finish();
  }
  EXPECT_EQ(recorder.lines(), 11u);
  EXPECT_EQ(recorder.redraws(), 0u);
}

TEST(Progress, PlainLinesAreRareInFastRuns) {
  Recorder recorder;
  ProgressLine line(recorder.output(false), {.log_every = 1, .plain_seconds = 5, .live_seconds = 0.1});
  for (int64_t step = 1; step <= 100; ++step) {
    recorder.now += 0.125;  // 12.5 s in all: lines at 0.125, 5.125, 10.125 and at the last step
    line.update(at_step(step));
  }
  line.finish();
  EXPECT_EQ(recorder.lines(), 4u);
}

TEST(Progress, AnInterruptedRunShowsItsLastStep) {
  Recorder recorder;
  ProgressLine line(recorder.output(false), {.log_every = 10, .plain_seconds = 5, .live_seconds = 0.1});
  line.update(at_step(1));
  line.update(at_step(2));
  EXPECT_EQ(recorder.lines(), 1u);
  line.finish();
  line.finish();
  EXPECT_EQ(recorder.lines(), 2u);
  EXPECT_TRUE(names(recorder.text, {"2/100"}));
}

TEST(Progress, LiveLineIsRewrittenAndClosed) {
  Recorder recorder;
  {
    ProgressLine line(recorder.output(true), {.log_every = 10, .plain_seconds = 5, .live_seconds = 0.5});
    line.update(at_step(1));
    line.update(at_step(2));  // too early
    recorder.now = 1;
    line.update(at_step(3));
    EXPECT_EQ(recorder.redraws(), 2u);
    EXPECT_EQ(recorder.lines(), 0u);
  }
  EXPECT_TRUE(recorder.text.ends_with("\n"));
  EXPECT_EQ(recorder.lines(), 1u);
}

TEST(Progress, LiveLineLeavesTheLastColumnFree) {
  Recorder recorder;
  recorder.width = 27;
  ProgressLine line(recorder.output(true));
  line.update(at_step(50));
  const std::string shown = recorder.text.substr(1, recorder.text.find('\x1b') - 1);
  EXPECT_LT(display_width(shown), 27) << shown;
}

TEST(Progress, MessagesStandAboveTheLiveLine) {
  Recorder recorder;
  ProgressLine line(recorder.output(true));
  line.message("before");
  EXPECT_EQ(recorder.text, "before\n");
  line.update(at_step(1));
  recorder.text.clear();
  line.message("saved\n");
  EXPECT_TRUE(recorder.text.starts_with("\r\x1b[Ksaved\n\r")) << recorder.text;
  EXPECT_TRUE(names(recorder.text, {"1/100"}));
}

TEST(Progress, ATerminalGetsPicturesOfTheControlsInTextsOfAModel) {
  const std::string text = "a\x1b[31m\x0e\tb\nc\xc2\x9b\x7f\n";
  for (const bool terminal : {false, true}) {
    Recorder shown;
    ProgressOutput output = shown.output(false);
    output.is_terminal = terminal;
    ProgressLine(output).model_text(text);
    EXPECT_EQ(shown.text, terminal ? "a\u241b[31m\u240e\tb\nc\ufffd\u2421\n" : text);
  }
}

TEST(Progress, NothingToShowPrintsNothing) {
  Recorder recorder;
  {
    ProgressLine line(recorder.output(true));
    line.finish();
  }
  EXPECT_EQ(recorder.text, "");
}

}  // namespace
}  // namespace gpt

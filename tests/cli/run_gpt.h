#pragma once

#include <string>
#include <vector>

#include "support/names.h"

using gpt::test::names;
using Facts = std::vector<gpt::test::Fact>;  // of tables of cases

// Whether a message names what was found and, behind it, what was probably meant.
testing::AssertionResult suggests(const std::string& message, const std::string& found,
                                  const std::string& meant);

// What a run of the program gave.
struct GptRun {
  int status = -1;  // exit status; -1: ended by a signal
  std::string out, err;
};

// Runs the built program with arguments and, for this run, environment settings "NAME=value" and standard
// input. No shell is involved. Fails the test when the program cannot be started.
GptRun run_gpt(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {},
               const std::string& input = "");

// That a run ended with a status and says "gpt: ..." with every fact.
void expect_error(const GptRun& run, int status, const Facts& facts);

// The words with more behind them. A flag with a value that is among both has only the later one.
std::vector<std::string> with_flags(std::vector<std::string> words, const std::vector<std::string>& more);

// What this process, a forked one, does with its life: the built program with arguments and settings.
[[noreturn]] void become_gpt(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment);

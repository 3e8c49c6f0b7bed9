#pragma once

#include <string>
#include <vector>

#include "support/names.h"

using gpt::test::names;
using Facts = std::vector<gpt::test::Fact>;  // for tables of test cases

// Succeeds if a message names the wrong input first and suggests the intended name after it.
testing::AssertionResult suggests(const std::string& message, const std::string& found,
                                  const std::string& meant);

// The result of running the program.
struct GptRun {
  int status = -1;  // exit status; -1: ended by a signal
  std::string out, err;
};

// Runs the built program with arguments, additional environment settings "NAME=value" and standard input.
// Does not use a shell. Fails the test if the program cannot be started.
GptRun run_gpt(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {},
               const std::string& input = "");

// Checks that a run ended with this status and an error "gpt: ..." that contains every fact.
void expect_error(const GptRun& run, int status, const Facts& facts);

// Returns `words` followed by `more`. If both contain a flag with a value, only the flag in `more` is kept.
std::vector<std::string> with_flags(std::vector<std::string> words, const std::vector<std::string>& more);

// Replaces this forked process with the built program, with arguments and environment settings.
[[noreturn]] void become_gpt(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment);

#include "run_gpt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

// Standard output and error are redirected to files, because a full pipe could block.
std::string capture_path(const char* name) {
  return (std::filesystem::path(testing::TempDir()) / (std::string(name) + std::to_string(::getpid())))
      .string();
}

std::string take(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

void redirect(const std::string& in, const std::string& out, const std::string& err) {
  if (!std::freopen(in.c_str(), "r", stdin)) ::_exit(127);
  if (!std::freopen(out.c_str(), "w", stdout) || !std::freopen(err.c_str(), "w", stderr)) ::_exit(127);
}

}  // namespace

testing::AssertionResult suggests(const std::string& message, const std::string& found,
                                  const std::string& meant) {
  const size_t at = message.find(found);
  if (at == std::string::npos)
    return testing::AssertionFailure() << "\"" << found << "\" is not in: " << message;
  return names(message.substr(at + found.size()), {meant});
}

void expect_error(const GptRun& run, int status, const Facts& facts) {
  EXPECT_EQ(run.status, status) << run.err;
  EXPECT_TRUE(("\n" + run.err).find("\ngpt: ") != std::string::npos) << run.err;
  EXPECT_TRUE(names(run.err, facts));
}

std::vector<std::string> with_flags(std::vector<std::string> words, const std::vector<std::string>& more) {
  for (const std::string& flag : more) {
    const auto found = flag.starts_with("--") ? std::ranges::find(words, flag) : words.end();
    if (found != words.end()) words.erase(found, found + 2);
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void become_gpt(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  for (const std::string& setting : environment)
    ::putenv(const_cast<char*>(setting.c_str()));
  std::vector<char*> argv = {const_cast<char*>(GPT_BINARY)};
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(GPT_BINARY, argv.data());
  ::_exit(127);
}

GptRun run_gpt(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
               const std::string& input) {
  const std::string in = capture_path("in");
  std::ofstream(in, std::ios::binary) << input;
  const std::string out = capture_path("out"), err = capture_path("err");
  const pid_t child = ::fork();
  if (child == 0) {
    redirect(in, out, err);
    become_gpt(arguments, environment);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  GptRun run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  EXPECT_NE(run.status, 127) << "cannot start " << GPT_BINARY;
  take(in);
  run.out = take(out);
  run.err = take(err);
  return run;
}

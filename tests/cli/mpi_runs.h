#pragma once

// Shared code of the tests of distributed runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

inline bool has_mpi() {
  return std::system("mpirun --version > /dev/null 2>&1") == 0 &&
         fs::exists(fs::path(GPT_BINARY).parent_path() / "gpt_mpi.so");
}

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 0);  // Open MPI leaks memory
    if (!has_mpi()) GTEST_SKIP() << "Open MPI is not installed, or was not when this was built";
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "line " + std::to_string(i * i) + " of some text to learn\n";
    gpt::test::write_plain_file(text_, text);
  }

  Words train(const std::string& name, const Words& more) const {
    Words words = {
        "train", "--data",       text_, "--tokenizer",   "byte", "--n-layer", "2",       "--n-head",
        "2",     "--n-embd",     "16",  "--n-ctx",       "16",   "--dropout", "0.1",     "--batch-size",
        "8",     "--eval-every", "5",   "--micro-batch", "1",    "--warmup",  "3",       "--eval-batches",
        "2",     "--threads",    "1",   "--grad-shards", "4",    "--out",     path(name)};
    return with_flags(words, more);
  }
  Words resume(const std::string& name, const Words& more = {}) const {
    return with_flags({"train", "--resume", "--out", path(name)}, more);
  }
  int step_of(const std::string& name) const {
    return nlohmann::json::parse(gpt::read_file(path(name + "/last/train_state.json")))["step"];
  }
  static Words launch(int n, const Words& command, const Words& flags = {}) {
    Words words = {"launch", "-n", std::to_string(n)};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  // Checks that the command succeeds and that its standard error contains the facts.
  static void succeeds(const Words& words, const Facts& facts = {}) {
    const GptRun run = run_gpt(words);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  }
  std::string path(const std::string& name) const { return dir_.file(name); }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const char* file :
         {"/last/model.safetensors", "/last/train_state.safetensors", "/best/model.safetensors"})
      EXPECT_TRUE(gpt::read_file(path(a) + file) == gpt::read_file(path(b) + file)) << a << " " << b << file;
  }

  // Returns the lines of the metrics of a run that contain a validation loss.
  static std::string held_out_losses(const std::string& run) {
    std::istringstream metrics(gpt::read_file(run + "/metrics.jsonl"));
    std::string losses;
    for (std::string line; std::getline(metrics, line);) {
      if (line.find("val_loss") != std::string::npos) losses += line + "\n";
    }
    EXPECT_NE(losses, "");
    return losses;
  }

  // Returns the newest value of each metric, except times and speeds.
  std::map<std::string, double> newest_metrics(const std::string& name) const {
    std::istringstream metrics(gpt::read_file(path(name + "/metrics.jsonl")));
    std::map<std::string, double> newest;
    for (std::string line; std::getline(metrics, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      for (const auto& [key, value] : record.items()) {
        if (value.is_number()) newest[key] = value;
      }
    }
    for (const char* key : {"seconds", "tok_per_s", "wait_s", "wait_share"})
      newest.erase(key);
    return newest;
  }

  // Returns the process of a rank that trains into a folder, or -1 if there is none.
  pid_t process_of(int rank, const std::string& out) const {
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      const auto content = [&](const char* name) {
        std::ifstream file(entry.path() / name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
      };
      const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0';
      if (content("environ").find(variable) != std::string::npos &&
          content("cmdline").find('\0' + out + '\0') != std::string::npos)
        return static_cast<pid_t>(std::stol(pid));
    }
    return -1;
  }

  // Returns true if a process has started a child process.
  static bool has_child(pid_t pid) {
    const std::string id = std::to_string(pid);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    pid_t child = 0;
    return static_cast<bool>(children >> child);
  }

  gpt::test::TempDir dir_;
  std::string text_ = dir_.file("text.txt");
};

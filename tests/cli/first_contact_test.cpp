// Tests commands with few arguments: missing flags, no --out, no --preset, a piped prompt, folders of code.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gpt_process.h"
#include "run_gpt.h"
#include "support/temp_dir.h"
#include "terminal.h"

namespace {

namespace fs = std::filesystem;
using gpt::test::TempDir;
using gpt::test::write_plain_file;
using nlohmann::json;
using Words = std::vector<std::string>;

json json_file(const std::string& path) {
  return json::parse(std::ifstream(path));
}

// Returns the number of lines of standard error that begin with this text.
int64_t lines_with(const std::string& text, const std::string& beginning) {
  int64_t n = 0;
  for (size_t at = 0; at != std::string::npos && at < text.size();) {
    n += text.compare(at, beginning.size(), beginning) == 0;
    const size_t end = text.find('\n', at);
    at = end == std::string::npos ? end : end + 1;
  }
  return n;
}

class FirstContact : public testing::Test {
 protected:
  static Words small(const Words& more) {
    return with_flags({"train", "--n-layer", "1", "--n-head", "1", "--n-embd", "8", "--n-ctx", "16",
                       "--batch-size", "2", "--threads", "1", "--steps", "4", "--warmup", "0"},
                      more);
  }
  std::string run() const { return dir_.file("run"); }
  GptRun train(const Words& more) const {
    GptRun done = run_gpt(small(more));
    EXPECT_EQ(done.status, 0) << done.err;
    return done;
  }
  int in_folder(const Words& words) const {
    GptProcess process(words, [this] { EXPECT_EQ(::chdir(dir_.path().c_str()), 0); });
    return process.end();
  }

  TempDir dir_;
};

TEST_F(FirstContact, AllWrongAndMissingFlagsAreReportedTogether) {
  const auto problems = [](const Words& words, const Facts& facts) {
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_EQ(lines_with(run.err, "gpt: "), std::ssize(facts)) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  };
  problems({"train", "--steps", "x", "--lr", "-1", "--dtype", "fp64"},
           {"--steps", "--lr", "--dtype", "--data"});
  problems({"train", "--n-layr=2", "--foo", "--lr", "-1"}, {"--n-layr", "--foo", "--lr", "--data"});
  problems({"train", "--data", "no.txt", "--tokenizer", "no.json", "--preset", "no"},
           {"no.txt", "no.json", "\"no\""});
  problems({"train", "--beta1", "2", "--beta2", "2", "--data", "tales"}, {"--beta1", "--beta2"});
  problems({"generate", "--top-k", "x", "--seed", "y", "--fo", "--ba"},
           {"--top-k", "--seed", "--fo", "--ba"});
  problems({"train", "--learning-rate=-1", "--data", "tales", "--preset", "gpt3"},
           {"--learning-rate", "gpt3-175b"});
  expect_error(run_gpt({"train", "--data", "tales"}, {"GPT_LR=-1"}), 2, {"GPT_LR"});
  problems({"finetune"}, {"MODEL", "--task", "--data"});
  problems({"finetune", "--task", "no"}, {"MODEL", "--task", "--data"});
  problems({"tokenizer", "train", "--pattern", "no"}, {"--out", "--data", "--pattern"});
  problems({"plan", "--ranks", "0", "--memory", "-1"}, {"--ranks", "--memory", "--data"});
}

TEST_F(FirstContact, ARunWithoutAFolderGetsTheNextNumber) {
  const Words words = small({"--data", "tales:2000", "--eval-every", "0"});
  EXPECT_EQ(in_folder(words), 0);
  EXPECT_EQ(in_folder(words), 0);
  EXPECT_TRUE(fs::exists(dir_.file("runs/1/last/model.safetensors")));
  EXPECT_TRUE(fs::exists(dir_.file("runs/2/last/model.safetensors")));
  fs::create_directories(dir_.file("runs/7"));
  EXPECT_EQ(in_folder(words), 0);
  EXPECT_TRUE(fs::exists(dir_.file("runs/8/last/model.safetensors")));
  EXPECT_EQ(in_folder({"train", "--resume"}), 2) << "of which run?";
}

TEST_F(FirstContact, AStartThatFailsLeavesNoFolder) {
  write_plain_file(dir_.file("short.txt"), "abc");
  EXPECT_EQ(in_folder(small({"short.txt"})), 1);
  EXPECT_EQ(in_folder({"finetune", GPT_SOURCE_DIR "/tests/golden/data/llama", "--task", "chat", "--data",
                       "short.txt"}),
            1);
  EXPECT_TRUE(fs::is_empty(dir_.file("runs")));
}

TEST_F(FirstContact, ARunThatDivergesSaysSo) {
  const Words words = {"--data", "tales:6000",   "--steps", "40",    "--log-every",
                       "1",      "--eval-every", "0",       "--out", run()};
  EXPECT_FALSE(names(train(with_flags(words, {"--lr", "0.001"})).err, {"--lr"}));
  EXPECT_TRUE(
      names(train(with_flags(words, {"--lr", "4", "--schedule", "constant", "--out", run() + "2"})).err,
            {"--lr", 4}));
}

TEST_F(FirstContact, ARunWithoutAPresetTakesTheOneThatPlanRecommends) {
  const json plan = json::parse(run_gpt({"plan", "--data", "tales:20000", "--json"}).out);
  EXPECT_EQ(run_gpt({"train", "--data", "tales:20000", "--threads", "1", "--steps", "1", "--eval-every", "0",
                     "--out", run()})
                .status,
            0);
  const json config = json_file(run() + "/config.json");
  const json preset = json::parse(run_gpt({"train", "--preset", plan["preset"], "--print-config"}).out);
  for (const char* key : {"n_layer", "n_embd", "n_head", "n_ctx", "lr", "batch_size"})
    EXPECT_EQ(config[key], preset[key]) << key;
  EXPECT_EQ(config["steps"], 1) << "a flag wins";
  const json chosen = json::parse(run_gpt({"train", "--data", "tales:20000", "--print-config"}).out);
  EXPECT_EQ(chosen["steps"], plan["presets"][0]["steps"]);
  EXPECT_LE(chosen["warmup"].get<int64_t>(), chosen["steps"].get<int64_t>() / 4);
}

TEST_F(FirstContact, ThePromptMayBePiped) {
  train({"--data", "tales:2000", "--eval-every", "0", "--out", run()});
  const auto text = [&](const Words& more, const std::string& input) {
    Words words = {"generate", run(), "--max-tokens", "8", "--greedy", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const GptRun done = run_gpt(words, {}, input);
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out;
  };
  EXPECT_EQ(text({}, "Once upon"), text({"--prompt", "Once upon"}, ""));
  EXPECT_EQ(text({}, "Once\nupon\n"), text({"--prompt", "Once\nupon"}, "")) << "without the last line end";
  EXPECT_EQ(text({"--prompt", "Once"}, "upon"), text({"--prompt", "Once"}, ""));
  text({}, "");  // an empty prompt: generation starts without one
}

TEST_F(FirstContact, FoldersGiveTextAndCodeOrWhatIsAskedFor) {
  fs::create_directories(dir_.file("project/src"));
  fs::create_directories(dir_.file("project/tests"));
  const std::string line(100, 'x');
  for (const char* name : {"a.txt", "src/b.py", "src/c.cpp", "tests/d.py", "Makefile"})
    write_plain_file(dir_.file("project/") + name, line);
  write_plain_file(dir_.file("project/picture.png"), line);
  const auto bytes = [&](const Words& more) {
    Words words = {"data", "preview", dir_.file("project"), "--n-ctx", "4"};
    words.insert(words.end(), more.begin(), more.end());
    const GptRun run = run_gpt(words);
    if (run.status != 0) return -run.status;
    const size_t at = run.err.find(": ");
    return std::stoi(run.err.substr(at + 2));  // "project: 5 files taken"
  };
  EXPECT_EQ(bytes({}), 5);
  EXPECT_EQ(bytes({"--include", "*.py"}), 2);
  EXPECT_EQ(bytes({"--include", "*.py", "--include", "*.txt"}), 3);
  EXPECT_EQ(bytes({"--include", "src/*"}), 2);
  EXPECT_EQ(bytes({"--exclude", "tests"}), 4);
  EXPECT_EQ(bytes({"--exclude", "*.py"}), 3);
  EXPECT_EQ(bytes({"--include", "*.png"}), 1);
  EXPECT_EQ(bytes({"--include", "*.rs"}), -1);
  train({"--include", "*.py", dir_.file("project"), "--eval-every", "0", "--out", run()});
  EXPECT_EQ(json_file(run() + "/config.json")["include"], Words{"*.py"});
  EXPECT_EQ(json_file(run() + "/last/train_state.json")["data_tokens"], 180);
}

TEST_F(FirstContact, ARunFolderIsItsBestModel) {
  // The learning rate rises until the loss increases.
  train({"--data", "tales:6000", "--steps", "60", "--warmup", "60", "--lr", "8", "--schedule", "constant",
         "--eval-every", "5", "--out", run()});
  int files = 0;
  const auto weights_of = [&](const std::string& model) {
    const std::string out = dir_.file("hf-" + std::to_string(files++));
    const GptRun done = run_gpt({"convert", model, out});
    EXPECT_EQ(done.status, 0) << done.err;
    std::ostringstream bytes;
    bytes << std::ifstream(out + "/model.safetensors", std::ios::binary).rdbuf();
    return bytes.str();
  };
  const auto same = [&](const std::string& a, const std::string& b) {
    return weights_of(a) == weights_of(b);
  };
  ASSERT_NE(json_file(run() + "/last/train_state.json")["best_step"], 60);
  EXPECT_FALSE(same(run() + "/best", run() + "/last"));
  EXPECT_TRUE(same(run() + "/best", run()));
  const std::string step = std::to_string(json_file(run() + "/best/train_best.json")["step"].get<int64_t>());
  const GptRun info = run_gpt({"generate", run(), "--prompt", "a", "--max-tokens", "1"});
  EXPECT_TRUE(names(info.err, {run() + "/best", "step " + step}));
  fs::remove_all(run() + "/best");
  EXPECT_TRUE(same(run(), run() + "/last"));
}

TEST_F(FirstContact, VariablesThatNothingReadsAreNoted) {
  const GptRun run = run_gpt({"info", "tiny"}, {"GPT_LERNING_RATE=1", "GPT_LR=1e-3", "GPT_THREADS=1"});
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(names(run.err, {"GPT_LERNING_RATE"}));
  EXPECT_FALSE(names(run.err, {"GPT_LR"}));
  EXPECT_FALSE(names(run.err, {"GPT_THREADS"}));
}

// A byte-level model can generate control sequences that a terminal would execute.
TEST_F(FirstContact, SamplesReachATerminalWithoutControls) {
  std::string controls;
  for (int i = 0; i < 400; ++i)
    controls += "\x1b[31m\x0e\x9b";
  write_plain_file(dir_.file("controls.bin.txt"), controls);
  const Words words = small({"--data", dir_.file("controls.bin.txt"), "--sample-every", "4", "--eval-every",
                             "0", "--steps", "4", "--out", run()});
  Terminal terminal(words, {"TERM=xterm"});
  const std::string shown = terminal.wait_for("gpt generate " + run());
  EXPECT_EQ(terminal.end(), 0);
  const size_t begin = shown.find("--- "), end = shown.find("\n---\r\n", begin);
  ASSERT_NE(end, std::string::npos) << shown;
  const std::string sample = shown.substr(begin, end - begin);
  EXPECT_GT(sample.size(), 60u);
  for (const char c : sample)
    EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') << int{c};
  const GptRun plain =
      run_gpt({"generate", run(), "--prompt", "\x1b", "--max-tokens", "1", "--threads", "1"});
  EXPECT_EQ(plain.out.front(), '\x1b') << "a pipe gets the bytes as they are";
}

}  // namespace

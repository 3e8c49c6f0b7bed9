// Tests which existing files gpt convert and other commands replace, and which they keep.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using gpt::read_file;
using gpt::test::TempDir;
using gpt::test::write_plain_file;

const std::string kModels = GPT_SOURCE_DIR "/tests/golden/data/";

class ConvertOutput : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy(kModels + "llama", in_);
    ASSERT_EQ(run_gpt({"convert", in_, out_, "--max-shard-size", "5KB"}).status, 0);
  }
  GptRun force(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"convert", in_, out_, "--force"};
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(words);
  }

  TempDir dir_;
  const std::string in_ = dir_.file("in"), out_ = dir_.file("out");
};

TEST_F(ConvertOutput, ForceReplacesWhatThisProgramWroteAndLeavesTheRest) {
  write_plain_file(out_ + "/notes.txt", "mine");
  fs::create_directories(out_ + "/logs/empty");
  write_plain_file(out_ + "/logs/run.log", "mine too");
  fs::create_symlink("notes.txt", out_ + "/link");
  const GptRun dry = force({"--dry-run", "--json"});
  ASSERT_EQ(dry.status, 0) << dry.err;
  const nlohmann::json files = nlohmann::json::parse(dry.out)["files"];
  EXPECT_EQ(files["write"], nlohmann::json({"model.safetensors"}));
  EXPECT_EQ(files["replace"], nlohmann::json({"config.json", "generation_config.json"}));
  EXPECT_EQ(files["keep"].size(), 3u) << files;
  EXPECT_FALSE(fs::exists(out_ + "/model.safetensors"));

  EXPECT_EQ(force().status, 0);
  EXPECT_TRUE(fs::exists(out_ + "/model.safetensors"));
  for (const auto& name : files["remove"])
    EXPECT_FALSE(fs::exists(out_ + "/" + name.get<std::string>())) << name;
  EXPECT_EQ(read_file(out_ + "/notes.txt"), "mine");
  EXPECT_EQ(read_file(out_ + "/link"), "mine");
  EXPECT_EQ(read_file(out_ + "/logs/run.log"), "mine too");
  EXPECT_TRUE(fs::is_directory(out_ + "/logs/empty"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 2) << "something was left behind";
}

TEST_F(ConvertOutput, AFileThatWasChangedIsInTheWay) {
  write_plain_file(out_ + "/config.json", "{}");
  expect_error(force(), 1, {out_ + "/config.json"});
  expect_error(force({"--dry-run"}), 1, {out_ + "/config.json"});
  fs::remove(out_ + "/config.json");
  for (const auto& entry : fs::directory_iterator(out_)) {
    if (entry.path().filename().string().starts_with("model-00001"))
      write_plain_file(entry.path().string(), "x");
  }
  EXPECT_EQ(force().status, 0);
  size_t kept = 0;  // a file that would be removed, but that the user has changed
  for (const auto& entry : fs::directory_iterator(out_))
    kept += entry.path().filename().string().starts_with("model-0") ? 1 : 0;
  EXPECT_EQ(kept, 1u);
}

TEST_F(ConvertOutput, InputAndOutputMayNotOverlap) {
  const std::string inner = out_ + "/inner";
  fs::copy(kModels + "llama", inner);
  const auto convert = [&](const std::string& from, const std::string& to) {
    return run_gpt({"convert", from, to, "--force"});
  };
  // The error names the output path first and then the input path.
  const auto refused = [&](const std::string& from, const std::string& to) {
    const GptRun run = convert(from, to);
    EXPECT_EQ(run.status, 1) << run.err;
    const std::string error = run.err.substr(run.err.rfind("gpt: "));
    const size_t output = error.find(to);
    ASSERT_NE(output, std::string::npos) << error;
    EXPECT_TRUE(names(error.substr(output + to.size()), {from}));
  };
  refused(inner, out_);
  refused(inner, inner);
  refused(in_, in_ + "/hf");
  refused(in_, in_ + "/m.gguf");
  refused(in_ + "/model.safetensors", in_);
  fs::create_directory_symlink(in_, dir_.file("link"));
  refused(in_, dir_.file("link"));
  refused(dir_.file("link"), in_ + "/../in/sub/..");
  ASSERT_EQ(convert(in_, dir_.file("m.gguf")).status, 0);
  fs::create_hard_link(dir_.file("m.gguf"), dir_.file("hard.gguf"));
  refused(dir_.file("m.gguf"), dir_.file("hard.gguf"));
  EXPECT_EQ(run_gpt({"verify", inner, "--golden", kModels + "llama/golden.safetensors"}).status, 0);
}

TEST_F(ConvertOutput, TrainingStateIsNoOutput) {
  const std::string run = dir_.file("run");
  ASSERT_EQ(run_gpt({"train", "--preset", "tiny", "--data", "tales:20000", "--steps", "1", "--eval-every",
                     "0", "--n-ctx", "16", "--batch-size", "2", "--out", run})
                .status,
            0);
  for (const std::string& part : {run, run + "/last", run + "/best"}) {
    fs::create_directories(part);
    expect_error(run_gpt({"convert", in_, part, "--force"}), 1, {part, "gpt train"});
  }
  EXPECT_EQ(run_gpt({"convert", run, run + "-hf"}).status, 0);
}

TEST_F(ConvertOutput, AFileOfAnotherKindIsNotReplaced) {
  const std::string file = dir_.file("m.gguf");
  write_plain_file(file, "GGUF? no");
  expect_error(run_gpt({"convert", in_, file, "--force"}), 1, {file, "gguf"});
  EXPECT_EQ(read_file(file), "GGUF? no");
  fs::remove(file);
  EXPECT_EQ(run_gpt({"convert", in_, file}).status, 0);
  expect_error(run_gpt({"convert", in_, file}), 1, {file, "--force"});
  EXPECT_EQ(run_gpt({"convert", in_, file, "--force", "--dtype", "bf16"}).status, 0);
}

// Commands must not overwrite a file that belongs to the user.
TEST(Outputs, ForeignFilesStay) {
  TempDir dir;
  const std::string file = dir.file("x"), model = kModels + "gpt2";
  const std::vector<std::string> commands[] = {{"trace", model, "--ids", "1,2", "--html", file},
                                               {"trace", model, "--ids", "1,2", "--svg", file},
                                               {"verify", model, "--write", file},
                                               {"data", "tales", "--bytes", "100", "--out", file},
                                               {"tokenizer", "train", "--data", GPT_SOURCE_DIR "/README.md",
                                                "--vocab-size", "260", "--out", file + ".json"}};
  for (const std::vector<std::string>& words : commands) {
    const std::string& path = words.back();
    write_plain_file(path, "mine");
    expect_error(run_gpt(words), 1, {words[words.size() - 2], path});
    EXPECT_TRUE(read_file(path) == "mine") << words[0];
    fs::remove(path);
    EXPECT_EQ(run_gpt(words).status, 0);
    const bool marked = words[0] == "trace" || words[0] == "verify";
    std::vector<std::string> again = words;
    if (!marked) again.emplace_back("--force");
    EXPECT_EQ(run_gpt(again).status, 0) << words[0];
    fs::remove(path);
  }
}

}  // namespace

// gpt convert as users run it.

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

const std::string kModels = GPT_SOURCE_DIR "/tests/golden/data/";
const std::string kTorch = GPT_SOURCE_DIR "/tests/data/torch/";

void expect_error(const GptRun& run, int status, const std::string& part) {
  EXPECT_EQ(run.status, status) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
}

TEST(Convert, ADryRunShowsEveryTensorAndWritesNothing) {
  const TempDir dir;
  const GptRun run = run_gpt({"convert", kModels + "gpt2", dir.file("out"), "--to", "hf", "--dry-run"});
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* part : {"transformer.h.0.attn.c_attn.weight", "blocks.1.attn.k.weight", "rows"})
    EXPECT_NE(run.out.find(part), std::string::npos) << part;
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Convert, WritesWithItsTokenizerAndNeverOverModels) {
  const TempDir dir;
  fs::copy(kModels + "llama", dir.file("in"));
  gpt::test::write_plain_file(dir.file("in/tokenizer_config.json"), "{}");
  const std::string out = dir.file("out");
  const GptRun run = run_gpt({"convert", dir.file("in"), out, "--max-shard-size", "5KB"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(fs::exists(out + "/model.safetensors.index.json"));
  EXPECT_TRUE(fs::exists(out + "/tokenizer_config.json"));
  EXPECT_EQ(run_gpt({"verify", out, "--golden", kModels + "llama/golden.safetensors"}).status, 0);

  expect_error(run_gpt({"convert", dir.file("in"), out}), 1,
               "exists already; choose another output or add --force");
  EXPECT_EQ(run_gpt({"convert", dir.file("in"), out, "--force", "--dtype", "bf16"}).status, 0);
  EXPECT_TRUE(fs::exists(out + "/model.safetensors"));
  EXPECT_FALSE(fs::exists(out + "/model.safetensors.index.json")) << "the old folder is gone as a whole";
  expect_error(run_gpt({"convert", out, out, "--force"}), 1, "is the model that is to be converted");
  expect_error(run_gpt({"convert", out, dir.file("in"), "--force"}), 1,
               "files that this program did not write");
}

// What llama2.c and llm.c need beside a model, and what is read from there.
TEST(Convert, WritesTheTokenizersOfCPrograms) {
  const TempDir dir;
  const GptRun learned =
      run_gpt({"tokenizer", "train", "--data", std::string(GPT_SOURCE_DIR) + "/README.md", "--vocab-size",
               "300", "--special-tokens", "gpt2", "--out", dir.file("tok")});
  ASSERT_EQ(learned.status, 0) << learned.err;
  fs::copy(std::string(GPT_SOURCE_DIR) + "/fuzz/corpus/c_vocab/llama2c", dir.file("small.bin"));
  const struct {
    const char *preset, *format, *file;
    std::string tokenizer;
  } cases[] = {{"llama-small", "llama2c", "tokenizer.bin", dir.file("small.bin")},
               {"gpt2", "llmc", "gpt2_tokenizer.bin", dir.file("tok")}};
  for (const auto& c : cases) {
    const std::string in = dir.file(std::string("in-") + c.format), out = dir.file(c.format),
                      alone = out + "-alone";
    const GptRun trained = run_gpt(
        {"train",     "--preset", c.preset,       "--data",     "tales:20000",  "--tokenizer", c.tokenizer,
         "--n-layer", "1",        "--n-head",     "2",          "--n-embd",     "16",          "--d-ff",
         "64",        "--n-ctx",  "32",           "--norm-eps", "1e-5",         "--steps",     "2",
         "--warmup",  "0",        "--eval-every", "0",          "--batch-size", "2",           "--out",
         in});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const GptRun run = run_gpt({"convert", in, out + "/model.bin", "--to", c.format, "--json"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find(c.file), std::string::npos) << run.out;
    fs::create_directory(alone);
    for (const char* name : {"model.bin", c.file})
      fs::copy(out + "/" + name, alone + "/" + name);
    const auto generate = [](const std::string& model) {
      return run_gpt(
          {"generate", model, "--prompt", "The king", "--greedy", "--max-tokens", "9", "--ignore-eos"});
    };
    const GptRun expected = generate(in), found = generate(alone + "/model.bin");
    EXPECT_EQ(found.status, 0) << found.err;
    EXPECT_EQ(found.out, expected.out);
    // And into the layout of transformers.
    EXPECT_EQ(run_gpt({"convert", alone + "/model.bin", out + "-hf"}).status, 0);
    EXPECT_EQ(generate(out + "-hf").out, expected.out);
  }
}

TEST(Convert, TellsAsJson) {
  const TempDir dir;
  const GptRun run = run_gpt({"convert", kTorch + "nanogpt.pt", dir.file("hf"), "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
  const nlohmann::json result = nlohmann::json::parse(run.out);
  EXPECT_EQ(result["format"], "gpt2");
  EXPECT_EQ(result["written"], true);
  EXPECT_EQ(result["ignored"].size(), 3u);
  EXPECT_EQ(result["tensors"][0]["source"], "transformer.wte.weight");
}

TEST(Convert, SaysWhatIsWrong) {
  const TempDir dir;
  const std::string out = dir.file("out");
  expect_error(run_gpt({"convert"}), 2, "IN is missing");
  expect_error(run_gpt({"convert", kModels + "gpt2"}), 2, "OUT is missing");
  expect_error(run_gpt({"convert", kModels + "gpt2", out, "--to", "llama2"}), 2, "did you mean");
  expect_error(run_gpt({"convert", kModels + "gpt2", out + ".bin", "--to", "llama2c"}), 1,
               "cannot be written for llama2.c");
  expect_error(run_gpt({"convert", kModels + "gpt2", out, "--quant", "q8_0"}), 2, "--quant");
  for (const char* size : {"0", "5XB", "-1GB", "GB", "99999999999999999GB"})
    expect_error(run_gpt({"convert", kModels + "gpt2", out, "--max-shard-size", size}), 2,
                 "expected a size such as");
  expect_error(run_gpt({"convert", kModels + "gpt2", out, "--to", "gguf"}), 2, "to end in .gguf");
  expect_error(run_gpt({"convert", kModels + "gpt2", out + ".bin"}), 2, "--to llama2c or --to llmc");
  expect_error(run_gpt({"convert", kModels + "gpt2", out + ".gguf", "--to", "gguf", "--quant", "q3_k"}), 2,
               "did you mean");
  expect_error(run_gpt({"convert", kTorch + "call.bad.pt", out}), 1, "posix.system");
  expect_error(run_gpt({"convert", dir.file("none"), out}), 1, "cannot find the model");
  EXPECT_FALSE(fs::exists(out));
}

TEST(Convert, GgufBothWays) {
  const TempDir dir;
  for (const char* family : {"llama", "gpt2"}) {
    const std::string file = dir.file(std::string(family) + ".gguf"),
                      back = dir.file(std::string(family) + "-hf");
    GptRun run = run_gpt({"convert", kModels + family, file, "--json"});  // the name says which format
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(nlohmann::json::parse(run.out)["format"], std::string("GGUF ") + family);
    run = run_gpt({"convert", file, back});
    EXPECT_EQ(run.status, 0) << run.err;
    const GptRun verified = run_gpt({"verify", back, "--golden", kModels + family + "/golden.safetensors"});
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  }
  const GptRun blocks = run_gpt(
      {"convert", kModels + "llama", dir.file("q.gguf"), "--to", "gguf", "--quant", "q4_k", "--dry-run"});
  EXPECT_EQ(blocks.status, 0) << blocks.err;
  EXPECT_NE(blocks.out.find("blk.0.attn_q.weight"), std::string::npos) << blocks.out;
}

}  // namespace

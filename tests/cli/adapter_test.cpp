// Command line tests of LoRA adapters: gpt info, generation with an adapter, merging and conversion.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "run_gpt.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"

namespace {

namespace fs = std::filesystem;
using gpt::test::TempDir;
using nlohmann::json;

const std::string kData = GPT_SOURCE_DIR "/tests/data/adapters/";
const std::string kBase = kData + "llama/base", kAdapter = kData + "llama/adapter";

GptRun run(std::vector<std::string> words) {
  GptRun result = run_gpt(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result;
}

// Returns the generated ids with their log-probabilities.
json continued(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"generate", model,          "--ids",  "3,1,4,1,5",  "--greedy", "-n",
                                    "6",        "--ignore-eos", "--json", "--logprobs", "0"};
  words.insert(words.end(), more.begin(), more.end());
  return json::parse(run(words).out)["completions"][0];
}

void expect_same(const json& a, const json& b) {
  EXPECT_EQ(a["ids"], b["ids"]);
  for (size_t i = 0; i < a["logprobs"].size(); ++i)
    EXPECT_NEAR(a["logprobs"][i]["logprob"].get<double>(), b["logprobs"][i]["logprob"].get<double>(), 1e-4)
        << i;
}

TEST(Adapter, IsUsedMergedAndConverted) {
  const TempDir dir;
  const json with = continued(kBase, {"--adapter", kAdapter});
  EXPECT_NE(with, continued(kBase));
  EXPECT_EQ(continued(kBase, {"--adapter", kAdapter + "=0"})["ids"], continued(kBase)["ids"]);
  expect_same(with, continued(kBase, {"--adapter", kAdapter + "=0.25", "--lora", kAdapter + "=0.75"}));

  run({"convert", kBase, dir.file("merged"), "--adapter", kAdapter});
  expect_same(with, continued(dir.file("merged")));

  run({"convert", kAdapter, dir.file("a.gguf"), "--base", kBase});
  EXPECT_EQ(continued(kBase, {"--adapter", dir.file("a.gguf")}), with);
  run({"convert", dir.file("a.gguf"), dir.file("peft"), "--base", kBase});
  EXPECT_EQ(continued(kBase, {"--adapter", dir.file("peft")}), with);

  run({"convert", kBase, dir.file("base.gguf")});  // GGUF stores the rows of its heads in a different order
  expect_same(with, continued(dir.file("base.gguf"), {"--adapter", kAdapter}));
  expect_same(with, continued(dir.file("base.gguf"), {"--adapter", dir.file("a.gguf")}));
}

// Evaluates an adapter that was trained here with the base model that it was trained on.
TEST(Adapter, ChangesALoss) {
  const TempDir dir;
  const std::string base = dir.file("base"), adapter = dir.file("tuned/best");
  gpt::test::write_plain_file(dir.file("text"), std::string(40, 'a') + std::string(40, 'b'));
  std::string pairs;
  for (const char* answer : {"a", "aa", "ab", "ba"})
    pairs += json{{"prompt", "a"}, {"chosen", answer}, {"rejected", "zz"}}.dump() + "\n";
  gpt::test::write_plain_file(dir.file("pairs.jsonl"), pairs);
  run({"train", "--data", "tales:4000", "--tokenizer", "byte", "--n-layer", "1", "--n-head", "2", "--n-embd",
       "16", "--n-ctx", "32", "--steps", "2", "--threads", "1", "--out", base});
  run({"finetune", base, "--task", "dpo", "--data", dir.file("pairs.jsonl"), "--lora-rank", "2", "--lr",
       "0.1", "--batch-size", "2", "--steps", "4", "--out", dir.file("tuned")});
  const auto loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval", base, "--data", dir.file("text"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(run(words).out)["loss"].get<double>();
  };
  const double with = loss({"--adapter", adapter});
  EXPECT_GT(std::abs(with - loss({})), 1e-3);
  EXPECT_NEAR(loss({"--against", "bf16", "--adapter", adapter}), with, 1e-4);
}

// The adapter has a matching shape, but was trained with a tokenizer whose ids have other meanings.
TEST(Adapter, OfOtherTokensIsRefused) {
  const TempDir dir;
  const std::string base = dir.file("base"), adapter = dir.file("adapter"), text = dir.file("text");
  fs::copy(kBase, base);
  fs::copy(kAdapter, adapter);
  const auto give = [](const std::string& folder, const char* characters) {
    gpt::test::write_plain_file(folder + "/tokenizer.json", gpt::make_char_tokenizer(characters)->to_json());
  };
  gpt::test::write_plain_file(text, "abcabcabcabc");
  give(base, "abc");
  const std::vector<std::vector<std::string>> uses = {
      {"generate", base, "--ids", "0", "-n", "1", "--adapter", adapter},
      {"chat", base, "--template", "chatml", "--prompt", "a", "-n", "1", "--adapter", adapter},
      {"eval", base, "--data", text, "--adapter", adapter},
      {"convert", base, dir.file("merged"), "--adapter", adapter},
      {"convert", adapter, dir.file("a.gguf"), "--base", base}};
  give(adapter, "abd");
  for (const auto& words : uses) {
    const GptRun result = run_gpt(words);
    EXPECT_EQ(result.status, 1) << words[0];
    EXPECT_TRUE(names(result.err, {adapter, 2, "\"d\"", "\"c\""}));
  }
  give(adapter, "ab");  // a smaller vocabulary
  for (const auto& words : uses) {
    const GptRun result = run_gpt(words);
    if (words[0] == "chat") {  // fails only later, because of its template
      EXPECT_TRUE(names(result.err, {"chatml", "<|im_start|>"}));
    } else {
      EXPECT_EQ(result.status, 0) << result.err;
    }
  }
}

TEST(Adapter, IsTold) {
  const json told = json::parse(run({"info", kData + "rslora/adapter", "--json"}).out);
  EXPECT_EQ(told["rank"], 4);
  EXPECT_EQ(told["scale"], 1.5);
  EXPECT_EQ(told["matrices"], 14);
  EXPECT_TRUE(names(run({"info", kAdapter}).out, {"q_proj"}));
}

TEST(Adapter, ThatDoesNotFit) {
  const TempDir dir;
  const auto says = [](const std::vector<std::string>& words, int status, const Facts& facts) {
    const GptRun result = run_gpt(words);
    EXPECT_EQ(result.status, status);
    EXPECT_TRUE(names(result.err, facts));
  };
  says({"generate", kBase, "--ids", "1", "--adapter", kData + "gpt2/adapter"}, 1,
       {"transformer.h.0.attn.c_attn", "model.layers.0.self_attn.q_proj"});
  says({"generate", kBase, "--ids", "1", "--adapter", dir.file("none")}, 1, {dir.file("none")});
  says({"generate", kBase, "--ids", "1", "--adapter", kAdapter + "=x"}, 2, {"--adapter", kAdapter + "=x"});
  says({"convert", kAdapter, dir.file("a.gguf")}, 2, {"--base", kAdapter});
  says({"convert", kAdapter, dir.file("a.gguf"), "--base", kBase, "--quant", "q8_0"}, 2,
       {"--quant", kAdapter});
  says({"convert", kAdapter, dir.file("a.gguf"), "--base", kBase, "--average", kBase}, 2,
       {"--average", kAdapter});
  says({"convert", kAdapter, kBase, "--adapter", "x"}, 2,
       {"--adapter", "gpt convert MODEL OUT --adapter " + kAdapter});
  says({"convert", kBase, dir.file("x"), "--base", kBase}, 2, {"--base", kBase});
  says({"convert", kAdapter, dir.path(), "--base", kBase}, 1, {dir.path(), "--force"});
  says({"convert", kAdapter, dir.file("a.txt"), "--base", kBase}, 2, {dir.file("a.txt"), ".gguf"});
  const std::string advice = "gpt convert MODEL OUT --adapter " + kAdapter;
  says({"train", "tales:5000", "--init-from", kAdapter, "--out", dir.file("run")}, 1, {kAdapter, advice});
  says({"plan", "tales:5000", "--init-from", kAdapter}, 1, {kAdapter, advice});
  says({"finetune", kAdapter, "--task", "chat", "--data", "x"}, 1, {kAdapter, advice});
}

TEST(Adapter, OfAnotherModelIsNoted) {
  const TempDir dir;
  const std::string other = dir.file("other");
  fs::copy(kBase, other);
  const auto says = [&](const std::vector<std::string>& words, const Facts& facts) {
    EXPECT_TRUE(names(run(words).err, facts));
  };
  says({"convert", kAdapter, dir.file("a.gguf"), "--base", other}, {kAdapter, other, "base"});
  EXPECT_EQ(run({"convert", kAdapter, dir.file("b.gguf"), "--base", kBase}).err.find("note"),
            std::string::npos);
}

}  // namespace

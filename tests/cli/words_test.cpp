// Tests messages for new users: several input texts, wrong names, numbers, and suggested next commands.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_names(const GptRun& run, int status, const Facts& facts) {
  EXPECT_EQ(run.status, status) << run.err;
  EXPECT_TRUE(names(run.err, facts));
}

const Words kSmall = {"--n-layer",    "1", "--n-head",     "2", "--n-embd", "16", "--n-ctx",   "16",
                      "--batch-size", "2", "--eval-every", "0", "--steps",  "2",  "--threads", "1"};

// Two texts without capital letters and a character-level model of them.
class WordsOfTheProgram : public testing::Test {
 protected:
  WordsOfTheProgram() {
    for (const std::string& name : {a_, b_}) {
      std::ofstream out(name);
      for (int i = 0; i < 300; ++i)
        out << "a small text of small letters\n";
    }
  }
  std::string file(const char* name) const { return dir_.file(name); }
  std::string char_model() const {
    expect_names(run_gpt(joined({"train", a_, "--tokenizer", "char", "-o", file("chars")}, kSmall)), 0,
                 {"gpt generate " + file("chars")});
    return file("chars");
  }

  gpt::test::TempDir dir_;
  std::string a_ = dir_.file("a.txt"), b_ = dir_.file("b.txt");
};

TEST_F(WordsOfTheProgram, SeveralTextsNeedNoFlag) {
  const auto data = [&](const Words& words) {
    return json::parse(run_gpt(joined({"train", "--print-config"}, words)).out, nullptr, false)["data"];
  };
  EXPECT_EQ(data({a_, b_, "--steps", "3"}), json::array({a_, b_}));
  EXPECT_EQ(data({"--steps", "3", "a=0.7", "b=0.3"}), json::array({"a=0.7", "b=0.3"}));
  const std::string weighted[] = {a_ + "=0.7", b_ + "=0.3"};
  EXPECT_EQ(run_gpt(joined({"train", weighted[0], weighted[1], "-o", file("run")}, kSmall)).status, 0);
  const std::string next = "gpt train " + a_ + " " + b_ + " --";
  expect_names(run_gpt(joined({"plan", a_, b_, "--measure", "0"}, kSmall)), 0, {a_ + " " + b_});
  expect_names(run_gpt({"data", "preview", a_, b_}), 0, {next});
  expect_names(run_gpt({"tokenizer", "train", a_, b_, "--vocab-size", "260", "-o", file("tok")}), 0, {next});
  expect_names(run_gpt({"data", "pack", a_, b_, "--tokenizer", "byte", "-o", file("shards")}), 0,
               {"gpt train " + file("shards")});
  EXPECT_EQ(run_gpt({"eval", file("run"), a_, b_, "--json"}).status, 0);
  const GptRun sweep = run_gpt({"sweep", a_, b_, "--over", "layers=1,2", "--n-embd", "16", "--n-head", "2",
                                "--n-ctx", "16", "--steps", "2", "--batch-size", "2", "--dry-run"});
  EXPECT_TRUE(names(sweep.out, {"n_layer=2"})) << sweep.err;
}

TEST_F(WordsOfTheProgram, NamesThatAreNotThere) {
  for (const Words& words :
       {Words{"train", "tiny", "-o", "x"}, {"plan", "tiny"}, {"data", "preview", "tiny"}})
    expect_names(run_gpt(words), 2, {"\"tiny\"", "--preset tiny"});
  for (const char* name : {"gpt2", "bpe"}) {
    expect_names(run_gpt({"train", a_, "--tokenizer", name, "-o", file("x")}), 1,
                 {name, "gpt tokenizer train FILE"});
    expect_names(run_gpt({"tokenizer", "info", name}), 1, {name, "gpt tokenizer train FILE"});
  }
  const GptRun preset = run_gpt({"plan", a_, "--preset", "GPT2"});
  expect_names(preset, 2, {"\"GPT2\"", "gpt2", "gpt info"});
  std::filesystem::create_directories(file("runs/book/last"));
  expect_names(run_gpt({"info", file("runs/bok")}), 1, {file("runs/bok"), file("runs/book")});
  std::ofstream(file("runs/book/config.json")) << "{}";
  const GptRun config = run_gpt({"generate", file("runs/book/config.json")});
  expect_names(config, 2, {file("runs/book/config.json")});
  EXPECT_TRUE(suggests(config.err, "config.json", file("runs/book")));
}

TEST(WordsOfPlan, RecommendsWhatFits) {
  const auto plan = [](const char* preset, const char* memory) {
    return run_gpt({"plan", "tales:20000", "--preset", preset, "--memory", memory, "--measure", "0"});
  };
  expect_names(plan("gpt2-xl", "4"), 0, {"gpt plan --preset mini-gpt --memory 4 --data tales:20000"});
  expect_names(plan("gpt2", "3"), 0, {"--micro-batch"});
  expect_names(plan("gpt2", "0.001"), 0, {"gpt info\n"});
}

TEST_F(WordsOfTheProgram, ModelsOfCharacters) {
  const std::string model = char_model();
  const GptRun trained = run_gpt({"train", "--resume", "-o", model});
  expect_names(
      trained, 0,
      {model, "step 2", "gpt train --resume --out " + model + " --steps M", "gpt generate " + model + "\n"});
  EXPECT_FALSE(names(trained.err, {"FLOPs"})) << "what it costs";
  EXPECT_EQ(run_gpt({"generate", model, "-n", "3"}).status, 0);
  expect_names(run_gpt({"chat", model, "--template", "chatml"}), 1,
               {"chatml", "<|im_start|>", "char", "gpt tokenizer train --special-tokens chatml"});
  const GptRun converted = run_gpt({"convert", model, file("c.bin"), "--to", "llmc"});
  expect_names(converted, 0, {"gpt2_tokenizer.bin", "char", "gpt info " + file("c.bin")});
  EXPECT_FALSE(names(converted.err, {"--tokenizer"})) << "nothing to leave out";
  const GptRun cropped = run_gpt({"generate", model, "a small text of small letters", "-n", "1", "--json"});
  expect_names(cropped, 0, {29, 16});
}

TEST_F(WordsOfTheProgram, TextsAndIdsOfTokenizers) {
  const GptRun encoded = run_gpt({"tokenizer", "encode", "byte", a_});
  expect_names(encoded, 0, {"gpt tokenizer encode byte < " + a_});
  EXPECT_EQ(run_gpt({"tokenizer", "decode", "byte", "97", "98", "99"}).out, "abc");
  ASSERT_EQ(run_gpt({"tokenizer", "train", a_, "--vocab-size", "260", "-o", file("tok")}).status, 0);
  const GptRun info = run_gpt({"tokenizer", "info", file("tok")});
  EXPECT_TRUE(names(info.out, {R"(|\s+)"}));
  EXPECT_EQ(info.out.find(R"(\\s)"), std::string::npos) << info.out;
}

// A flag without effect takes its own value and nothing else.
TEST(ForeignFlags, TakeNoOtherWords) {
  const std::string model = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  const Words plain = {"generate", model, "--ids", "1,2", "--max-tokens", "3", "--greedy"};
  const std::string expected = run_gpt(plain).out;
  for (const Words& more : std::vector<Words>{{"-fa", "1"},
                                              {"--flash-attn", "enabled"},
                                              {"--mmap", "TRUE"},
                                              {"--do-sample"},
                                              {"--trust-remote-code", "True"},
                                              {"--num-workers", "4"},
                                              {"--stream=1"}}) {
    Words words = plain;
    words.insert(words.end(), more.begin(), more.end());
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, expected) << more.front();
    EXPECT_TRUE(names(run.err, {more.front().substr(0, more.front().find('='))})) << run.err;
  }
  for (const Words& more :
       std::vector<Words>{{"--do-sample", "False"}, {"--do-sample=0"}, {"--stream=false"}}) {
    Words words = plain;
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run_gpt(words).status, 2) << more.front();
  }
  const GptRun run = run_gpt({"train", "--num-workers", "--threads", "1", "book-that-is-missing.txt"});
  EXPECT_TRUE(names(run.err, {"book-that-is-missing.txt"})) << run.err;
}

TEST(WordsOfErrors, AreThoseOfTheProgram) {
  const struct {
    Words words;
    Facts facts;
  } calls[] = {
      {{"generate", "m", "--max-tokens", "abc"}, {"--max-tokens", "\"abc\""}},
      {{"generate", "m", "--max-tokens", "1", "--max-tokens", "2"}, {"--max-tokens", 2, "\"1\", \"2\""}},
      {{"sweep", "--levels", "9"}, {"--levels", 1, 8, 9}},
      {{"trace", "--demo"}, {"--demo", "NAME|all"}},
      {{"generate", "m", "-nope"}, {"-nope", "gpt generate --help"}},
      {{"generate", "m", "-temp", "0.5"}, {"-temp", "--temp"}},
      {{"tokenizer"}, {"gpt tokenizer COMMAND", "encode", "decode"}},
      {{"data"}, {"gpt data COMMAND", "pack", "preview"}},
      {{"convert", "m"}, {"OUT", "gpt convert --help"}},
      {{"train", "--print-config", "--device", "cuda"}, {"--device cuda", "CPU"}},
      {{"generate", "m", "--device", "cuda"}, {"--device cuda", "CPU"}},
      {{"train", "--dry-run"}, {"--dry-run", "gpt plan"}},
      {{"train", "--resume-from", "x"}, {"--resume-from", "--resume", "--out DIR", "--init-from MODEL"}},
      {{"train", "--optim", "adam", "--out", "x", "--data", "tales"}, {"--optim", "\"adam\"", "adamw"}},
      {{"train", "--early-stopping"}, {"--early-stopping", "--patience N"}},
      {{"train", "--shuffle"}, {"--shuffle", "--sampling epoch"}},
      {{"train", "--lora"}, {"--lora", "gpt finetune MODEL --lora-rank R"}},
      {{"train", "--gpu"}, {"--gpu", "CPU"}},
      {{"train", "-m", "gpt2"}, {"-m", "--preset NAME", "--init-from MODEL"}},
      {{"generate", "m", "--ctx-size", "99"}, {"--ctx-size"}},
      {{"generate", "m", "--quant", "q8_0"}, {"--quant", "--dtype q8_0", "gpt convert --quant"}},
      {{"tokenizer", "train", "--model-type", "bpe"}, {"--model-type", "BPE", "--pattern"}},
      {{"serve"}, {"MODEL", "gpt serve MODEL"}},
      {{"fine-tune"}, {"\"fine-tune\"", "gpt finetune"}},
  };
  for (const auto& [words, facts] : calls)
    expect_names(run_gpt(words), 2, facts);
  EXPECT_FALSE(names(run_gpt({"generate", "m", "--ctx-size", "99"}).err, {"--help"})) << "it has an answer";
  const std::string model = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  const Words ids = {"generate", model, "--ids", "1,2", "-n", "2"};
  expect_names(run_gpt(joined(ids, {"--beams", "2", "--top-k", "3", "--temperature", "1"})), 2,
               {"--temperature", "--top-k", "--beams"});
  EXPECT_EQ(run_gpt(joined(ids, {"--beams", "2"}), {"GPT_TEMPERATURE=1"}).status, 0);
  expect_names(run_gpt(joined(ids, {"--dtype", "Q4_K_M"})), 2,
               {"--dtype Q4_K_M", "gpt convert MODEL OUT.gguf --quant q4_k"});
  EXPECT_EQ(run_gpt(joined(ids, {"--dtype", "Q8_0"})).status, 0);
}

}  // namespace

// What the program says to somebody new: several texts, mistaken names, numbers, what comes next.

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

void expect_says(const GptRun& run, int status, const std::string& part) {
  EXPECT_EQ(run.status, status) << run.err;
  EXPECT_NE(run.err.find(part), std::string::npos) << "expected: " << part << "\nfound: " << run.err;
}

const Words kSmall = {"--n-layer",    "1", "--n-head",     "2", "--n-embd", "16", "--n-ctx",   "16",
                      "--batch-size", "2", "--eval-every", "0", "--steps",  "2",  "--threads", "1"};

// Two texts without capitals, and a model of their characters.
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
    expect_says(run_gpt(joined({"train", a_, "--tokenizer", "char", "-o", file("chars")}, kSmall)), 0,
                "done");
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
  expect_says(run_gpt(joined({"plan", a_, b_, "--measure", "0"}, kSmall)), 0, a_ + " " + b_);
  expect_says(run_gpt({"data", "preview", a_, b_}), 0, next);
  expect_says(run_gpt({"tokenizer", "train", a_, b_, "--vocab-size", "260", "-o", file("tok")}), 0, next);
  expect_says(run_gpt({"data", "pack", a_, b_, "--tokenizer", "byte", "-o", file("shards")}), 0, "next: ");
  EXPECT_EQ(run_gpt({"eval", file("run"), a_, b_, "--json"}).status, 0);
  const GptRun sweep = run_gpt({"sweep", a_, b_, "--over", "layers=1,2", "--n-embd", "16", "--n-head", "2",
                                "--n-ctx", "16", "--steps", "2", "--batch-size", "2", "--dry-run"});
  EXPECT_NE(sweep.out.find("n_layer=2"), std::string::npos) << sweep.out << sweep.err;
}

TEST_F(WordsOfTheProgram, NamesThatAreNotThere) {
  for (const Words& words :
       {Words{"train", "tiny", "-o", "x"}, {"plan", "tiny"}, {"data", "preview", "tiny"}})
    expect_says(run_gpt(words), 2, "--preset tiny");
  for (const char* name : {"gpt2", "bpe"}) {
    expect_says(run_gpt({"train", a_, "--tokenizer", name, "-o", file("x")}), 1, "gpt tokenizer train FILE");
    expect_says(run_gpt({"tokenizer", "info", name}), 1, "gpt tokenizer train FILE");
  }
  const GptRun preset = run_gpt({"plan", a_, "--preset", "GPT2"});
  expect_says(preset, 2, "did you mean gpt2?; gpt info lists all");
  std::filesystem::create_directories(file("runs/book/last"));
  expect_says(run_gpt({"info", file("runs/bok")}), 1, "did you mean " + file("runs/book") + "?");
  std::ofstream(file("runs/book/config.json")) << "{}";
  expect_says(run_gpt({"generate", file("runs/book/config.json")}), 2,
              "give its folder, " + file("runs/book"));
}

TEST(WordsOfPlan, RecommendsWhatFits) {
  const auto plan = [](const char* preset, const char* memory) {
    return run_gpt({"plan", "tales:20000", "--preset", preset, "--memory", memory, "--measure", "0"});
  };
  expect_says(plan("gpt2-xl", "4"), 0, "next: gpt plan --preset mini-gpt --memory 4 --data tales:20000");
  const GptRun flags = plan("gpt2", "3");
  expect_says(flags, 0, "--micro-batch");
  expect_says(plan("gpt2", "0.001"), 0, "next: gpt info\n");
}

TEST_F(WordsOfTheProgram, ModelsOfCharacters) {
  const std::string model = char_model();
  const GptRun trained = run_gpt({"train", "--resume", "-o", model});
  expect_says(trained, 0, "is finished at step 2; gpt train --resume --out " + model + " --steps M");
  EXPECT_EQ(trained.err.find("cost: "), std::string::npos) << trained.err;
  expect_says(trained, 0, "next: gpt generate " + model + "\n");
  EXPECT_EQ(run_gpt({"generate", model, "-n", "3"}).status, 0);
  expect_says(run_gpt({"chat", model, "--template", "chatml"}), 1, "needs the special token <|im_start|>");
  expect_says(run_gpt({"chat", model, "--template", "chatml"}), 1,
              "gpt tokenizer train --special-tokens chatml");
  const GptRun converted = run_gpt({"convert", model, file("c.bin"), "--to", "llmc"});
  EXPECT_EQ(converted.err.find("leave it out"), std::string::npos) << converted.err;
  const GptRun cropped = run_gpt({"generate", model, "a small text of small letters", "-n", "1", "--json"});
  expect_says(cropped, 0, "the prompt has 29 tokens, the context 16: only the last 16 are read");
}

TEST_F(WordsOfTheProgram, TextsAndIdsOfTokenizers) {
  const GptRun encoded = run_gpt({"tokenizer", "encode", "byte", a_});
  expect_says(encoded, 0, "gpt tokenizer encode byte < " + a_);
  EXPECT_EQ(run_gpt({"tokenizer", "decode", "byte", "97", "98", "99"}).out, "abc");
  ASSERT_EQ(run_gpt({"tokenizer", "train", a_, "--vocab-size", "260", "-o", file("tok")}).status, 0);
  const GptRun info = run_gpt({"tokenizer", "info", file("tok")});
  EXPECT_NE(info.out.find(R"(|\s+)"), std::string::npos) << info.out;
  EXPECT_EQ(info.out.find(R"(\\s)"), std::string::npos) << info.out;
}

TEST(WordsOfErrors, AreThoseOfTheProgram) {
  const struct {
    Words words;
    const char* part;
  } calls[] = {
      {{"generate", "m", "--max-tokens", "abc"}, "--max-tokens: expected a number, found \"abc\""},
      {{"generate", "m", "--max-tokens", "1", "--max-tokens", "2"},
       "--max-tokens: expected one value, found 2"},
      {{"sweep", "--levels", "9"}, "--levels: expected 1 to 8, found 9"},
      {{"trace", "--demo"}, "--demo: expected NAME|all behind it, found none"},
      {{"generate", "m", "-no-cnv"}, "there is no -no-cnv here"},
      {{"generate", "m", "-nope"}, "unknown flag -nope"},
      {{"generate", "m", "-temp", "0.5"}, "did you mean --temp"},
      {{"tokenizer"}, "Usage: gpt tokenizer COMMAND"},
      {{"data"}, "Usage: gpt data COMMAND"},
      {{"convert", "m"}, "see gpt convert --help"},
      {{"train", "--print-config", "--device", "cuda"},
       "--device cuda: this build runs on the CPU only; leave it out"},
      {{"generate", "m", "--device", "cuda"}, "--device cuda: this build runs on the CPU only; leave it out"},
      {{"train", "--dry-run"}, "gpt plan takes the same flags"},
      {{"train", "--resume-from", "x"}, "--resume goes on"},
      {{"train", "--optim", "adam", "--out", "x", "--data", "tales"}, "adamw"},
      {{"train", "--early-stopping"}, "--patience N"},
      {{"train", "--shuffle"}, "--sampling epoch"},
      {{"train", "--lora"}, "gpt finetune"},
      {{"train", "--gpu"}, "computes on the CPU"},
      {{"train", "--num-workers", "4"}, "--threads"},
      {{"train", "-m", "gpt2"}, "--preset NAME"},
      {{"generate", "m", "--ctx-size", "99"}, "the context is the model's own"},
      {{"generate", "m", "--quant", "q8_0"}, "--dtype q8_0"},
      {{"tokenizer", "train", "--model-type", "bpe"}, "tokenizer train: there is no --model-type here: BPE"},
      {{"serve"}, "MODEL is missing"},
      {{"fine-tune"}, "gpt finetune"},
  };
  for (const auto& [words, part] : calls)
    expect_says(run_gpt(words), 2, part);
  const std::string model = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  const Words ids = {"generate", model, "--ids", "1,2", "-n", "2"};
  expect_says(run_gpt(joined(ids, {"--beams", "2", "--top-k", "3", "--temperature", "1"})), 2,
              "--temperature, --top-k: beam search draws nothing");
  EXPECT_EQ(run_gpt(joined(ids, {"--beams", "2"}), {"GPT_TEMPERATURE=1"}).status, 0);
  expect_says(run_gpt(joined(ids, {"--dtype", "Q4_K_M"})), 2, "--quant q4_k");
  EXPECT_EQ(run_gpt(joined(ids, {"--dtype", "Q8_0"})).status, 0);
}

}  // namespace

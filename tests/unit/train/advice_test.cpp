#include "train/advice.h"

#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/small_models.h"
#include "train/announce.h"
#include "train/plan.h"

namespace gpt {
namespace {

struct Case {
  RunConfig config;
  int64_t parameters = 1000000, train_tokens = 10000000, val_tokens = 1000000, documents = 1;
  bool chosen_tokenizer = true;

  Case() {
    config.model = test::make_config({"gpt2", "gpt2", R"({"vocab_size": 256, "n_embd": 64, "n_ctx": 64})"});
    config.train.steps = 1000;
    complete(config.train);
  }
  std::vector<std::string> advice() const {
    return run_advice({.config = config,
                       .parameters = parameters,
                       .train_tokens = train_tokens,
                       .val_tokens = val_tokens,
                       .documents = documents,
                       .chosen_tokenizer = chosen_tokenizer});
  }
};

// One line, with all of these in it.
void expect_line(const Case& c, const std::vector<std::string>& parts) {
  const std::vector<std::string> lines = c.advice();
  ASSERT_EQ(lines.size(), 1u) << parts[0];
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
  for (const std::string& part : parts)
    EXPECT_NE(lines[0].find(part), std::string::npos) << lines[0];
}

TEST(Advice, NothingWhereAllIsWell) {
  EXPECT_TRUE(Case().advice().empty());
}

TEST(Advice, PassesOverTheText) {
  Case c;
  c.config.train.batch_size = c.config.train.micro_batch = 1000;  // 64 M tokens in all
  c.parameters = 11000000;
  expect_line(c,
              {"passes 6.4 times over 10.0 M tokens with 11.0 M parameters", "--steps 625", "--patience 5"});
}

TEST(Advice, PassesThatAModelStands) {
  Case c;
  c.config.train.batch_size = c.config.train.micro_batch = 1000;
  c.parameters = 9000000;  // between a token and twenty for each: up to ten passes
  EXPECT_TRUE(c.advice().empty());
  c.config.train.steps = 2000;
  complete(c.config.train);
  EXPECT_EQ(c.advice().size(), 1u);
  c.config.train.patience = 3;
  EXPECT_TRUE(c.advice().empty()) << "it ends by itself";
  c.config.train.patience = 0;
  c.parameters = 500000;
  EXPECT_TRUE(c.advice().empty()) << "twenty tokens for each parameter cannot be learned by heart";
}

TEST(Advice, DataTooSmall) {
  Case c;
  c.parameters = 1;
  c.train_tokens = 1000;
  expect_line(c, {"16 x 64 tokens is more than the 1,000", "--batch-size 3"});
  c = Case();
  c.val_tokens = 130;
  expect_line(c, {"130 tokens, 2 windows of 64", "--val-fraction"});
  c.val_tokens = 0;
  EXPECT_TRUE(c.advice().empty());
}

TEST(Advice, WarmUp) {
  Case c;
  c.config.train.warmup = 1000;
  expect_line(c, {"1,000 of 1,000 steps of warm-up", "--warmup 100"});
  c.config.train.warmup = 0;
  EXPECT_TRUE(c.advice().empty());
  c.config.train.lr = 3e-3;
  expect_line(c, {"0.003", "--warmup 100"});
}

TEST(Advice, ShortDocumentsAndLargeVocabularies) {
  Case c;
  c.documents = 500000;
  expect_line(c, {"500,000 documents have 20 tokens", "--n-ctx 16"});
  c.documents = 0;
  EXPECT_TRUE(c.advice().empty()) << "not known";
  c.config.model.vocab_size = 200000;
  expect_line(c, {"each of 200,000 tokens occurs 50 times", "--vocab-size 32768"});
  c.chosen_tokenizer = false;
  EXPECT_TRUE(c.advice().empty());
}

TEST(Advice, Evaluation) {
  Case c;
  c.config.train.eval_every = 100;
  c.config.train.eval_batches = 50;
  expect_line(c, {"14.3 % of the run", "--eval-every 100 --eval-batches 15"});
  c = Case();
  c.config.train.patience = 10;
  expect_line(c, {"10 evaluations, --patience 10"});
}

TEST(Advice, AnOptimizerThatTakesMoreThanATenth) {
  Case c;
  c.config.train.optimizer = "muon";
  c.config.train.batch_size = 64;
  EXPECT_TRUE(c.advice().empty());
  c.config.train.batch_size = 1;
  expect_line(c, {"the optimizer's own products", "--batch-size"});
  const std::string line = c.advice()[0];
  const size_t at = line.find("--batch-size ") + 13;
  c.config.train.batch_size = std::stoll(line.substr(at));
  EXPECT_LE(optimizer_share(c.config), 0.1);
  EXPECT_GT(optimizer_share(c.config), 0.05);
}

TEST(Advice, PatienceNeedsEvaluation) {
  TrainConfig c;
  c.patience = 2;
  complete(c);
  EXPECT_NO_THROW(check_run(c, true));
  EXPECT_NE(test::error_of([&] { check_run(c, false); }).find("--patience 2"), std::string::npos);
  c.eval_every = 0;
  EXPECT_NE(test::error_of([&] { check_run(c, true); }).find("--eval-every"), std::string::npos);
}

TEST(Announce, EvaluationLines) {
  EXPECT_EQ(
      evaluation_line({.val = 5.5398, .train = 5.5432}, {.step = 0, .lr = 0, .norm = 1.25, .best = true}),
      "step 0: train 5.5432 | val 5.5398 | lr 0.000000 | norm 1.2500, best so far\n");
  EXPECT_EQ(evaluation_line({.val = 1, .train = {}}, {.step = 10, .lr = 1, .norm = 2.0, .floor = 0.75}),
            "step 10: validation loss 1.0000, perplexity 2.72, 0.2500 above the floor\n");
  EXPECT_EQ(evaluation_line({.val = 10, .train = {}}, {.step = 1000, .lr = 1}),
            "step 1,000: validation loss 10.0000, perplexity 22,026.47\n");
}

TEST(Announce, EndsSayWhatBecameOfIt) {
  RunEnd end{.step = 50,
             .steps = 100,
             .seconds = 3,
             .val_loss = 2.0,
             .best_val_loss = 1.5,
             .best_step = 20,
             .out = "run"};
  EXPECT_NE(end_lines(end).find("stopped at step 50 of 100; continue with: gpt train --resume --out run"),
            std::string::npos);
  end.program = "gpt launch -n 2 --";
  EXPECT_NE(end_lines(end).find("continue with: gpt launch -n 2 -- train --resume --out run\n"),
            std::string::npos);
  end.program = "gpt";
  end.finished = true;
  end.patience = 3;
  const std::string text = end_lines(end);
  for (const char* part : {"done: 50 steps", "validation loss 2.0000; best 1.5000 at step 20",
                           "3 evaluations without", "--patience 0", "run/last and run/best"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  end.val_step = 40;
  end.best_step = 70;
  EXPECT_NE(
      end_lines(end).find("validation loss 2.0000 at step 40; best 1.5000 at step 70, of the part that was"),
      std::string::npos);
}

}  // namespace
}  // namespace gpt

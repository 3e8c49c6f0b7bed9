#include "run/advice.h"

#include <gtest/gtest.h>

#include "run/announce.h"
#include "run/plan.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"

namespace gpt {
namespace {

using test::error_of;
using test::Fact;
using test::names;

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
    std::vector<std::string> lines;
    for (const Advice& one : run_advice({.config = config,
                             .parameters = parameters,
                             .train_tokens = train_tokens,
                             .val_tokens = val_tokens,
                             .documents = documents,
                             .chosen_tokenizer = chosen_tokenizer}))
      lines.push_back(one.text);
    return lines;
  }
};

// Checks that the advice is one line that contains all facts.
void expect_line(const Case& c, std::initializer_list<Fact> facts) {
  const std::vector<std::string> lines = c.advice();
  ASSERT_EQ(lines.size(), 1u) << facts.begin()->text();
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
  EXPECT_TRUE(names(lines[0], facts));
}

TEST(Advice, NothingWhereAllIsWell) {
  EXPECT_TRUE(Case().advice().empty());
}

TEST(Advice, PassesOverTheText) {
  Case c;
  c.config.train.batch_size = c.config.train.micro_batch = 1000;  // 64 M tokens in total
  c.parameters = 11000000;
  expect_line(c, {"6.4", "10.0 M", "11.0 M", "`steps` 625", "`patience` 5"});
}

TEST(Advice, PassesThatAModelStands) {
  Case c;
  c.config.train.batch_size = c.config.train.micro_batch = 1000;
  c.parameters = 9000000;  // 1 to 20 tokens per parameter: up to ten epochs
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
  expect_line(c, {16, 64, 1000, "`batch_size` 3"});
  c = Case();
  c.val_tokens = 130;
  expect_line(c, {130, 2, 64, "`val_fraction`"});
  c.val_tokens = 0;
  EXPECT_TRUE(c.advice().empty());
}

TEST(Advice, WarmUp) {
  Case c;
  c.config.train.warmup = 1000;
  expect_line(c, {1000, "`warmup` 100"});
  c.config.train.warmup = 0;
  EXPECT_TRUE(c.advice().empty());
  c.config.train.lr = 3e-3;
  expect_line(c, {"0.003", "`warmup` 100"});
}

TEST(Advice, ShortDocumentsAndLargeVocabularies) {
  Case c;
  c.documents = 500000;
  expect_line(c, {500000, 20, "`n_ctx` 16"});
  c.documents = 0;
  EXPECT_TRUE(c.advice().empty()) << "not known";
  c.config.model.vocab_size = 200000;
  expect_line(c, {200000, 50, "--vocab-size 32768"});
  c.chosen_tokenizer = false;
  EXPECT_TRUE(c.advice().empty());
}

TEST(Advice, Evaluation) {
  Case c;
  c.config.train.eval_every = 100;
  c.config.train.eval_batches = 50;
  expect_line(c, {"14.3 %", "`eval_every` 100", "`eval_batches` 15"});
  c = Case();
  c.config.train.patience = 10;
  expect_line(c, {10, "`patience` 10"});
}

TEST(Advice, AnOptimizerThatTakesMoreThanATenth) {
  Case c;
  c.config.train.optimizer = "muon";
  c.config.train.batch_size = 64;
  EXPECT_TRUE(c.advice().empty());
  c.config.train.batch_size = 1;
  expect_line(c, {"10.0 %", "`batch_size`", "`optimizer` adamw"});
  const std::string line = c.advice()[0];
  const size_t at = line.find("`batch_size` ") + 13;
  c.config.train.batch_size = std::stoll(line.substr(at));
  EXPECT_LE(optimizer_share(c.config), 0.1);
  EXPECT_GT(optimizer_share(c.config), 0.05);
}

TEST(Advice, PatienceNeedsEvaluation) {
  TrainConfig c;
  c.patience = 2;
  complete(c);
  EXPECT_NO_THROW(check_run(c, true));
  EXPECT_TRUE(names(error_of([&] { check_run(c, false); }), {"`patience` 2", "`val_fraction`"}));
  c.eval_every = 0;
  EXPECT_TRUE(names(error_of([&] { check_run(c, true); }), {"`patience` 2", "`eval_every`"}));
}

TEST(Announce, EvaluationLines) {
  EvalState state{.step = 0, .lr = 0, .norm = 1.25, .best = true};
  const EvalLosses losses{.val = 5.5398, .train = 5.5432};
  const std::string line = evaluation_line(losses, state);
  EXPECT_TRUE(names(line, {0, "5.5432", "5.5398", "0.000000", "1.2500"}));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  state.best = false;
  EXPECT_NE(evaluation_line(losses, state), line);
  EXPECT_TRUE(
      names(evaluation_line({.val = 1, .train = {}}, {.step = 10, .lr = 1, .norm = 2.0, .floor = 0.75}),
            {10, "1.0000", "2.72", "0.2500"}));
  EXPECT_TRUE(names(evaluation_line({.val = 10, .train = {}}, {.step = 1000, .lr = 1}),
                    {1000, "10.0000", "22,026.47"}));
}

TEST(Announce, EndsSayWhatBecameOfIt) {
  RunEnd end{.step = 50,
             .steps = 100,
             .seconds = 3,
             .val_loss = 2.0,
             .best_val_loss = 1.5,
             .best_step = 20,
             .out = "run",
             .resume_command = "gpt train --resume --out run"};
  EXPECT_TRUE(names(end_lines(end), {50, 100, "gpt train --resume --out run"}));
  end.finished = true;
  end.patience = 3;
  EXPECT_TRUE(names(end_lines(end), {50, "2.0000", "1.5000", 20, 3, "--patience 0", "run/last", "run/best"}));
  end.val_step = 40;
  end.best_step = 70;
  EXPECT_TRUE(names(end_lines(end), {"2.0000", 40, "1.5000", 70}));
}

}  // namespace
}  // namespace gpt

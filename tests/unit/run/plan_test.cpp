#include "run/plan.h"

#include <gtest/gtest.h>

#include "model/params.h"
#include "model/training_graph.h"
#include "support/small_models.h"
#include "support/temp_dir.h"
#include "train/schedule.h"

namespace gpt {
namespace {

PlanSubject small_subject() {
  PlanSubject s;
  s.config.model = test::make_config({"gpt2", "gpt2", R"({"n_embd": 64, "d_ff": 256, "n_ctx": 64})"});
  s.config.train.batch_size = 12;
  s.config.train.dtype = TrainDType::fp32;
  complete(s.config.train);
  s.threads = 2;
  s.base_bytes = 1000;
  return s;
}

TEST(Plan, TimesDue) {
  EXPECT_EQ(times_due(100, 0), 0);
  EXPECT_EQ(times_due(100, 25), 4);
  EXPECT_EQ(times_due(101, 25), 5) << "and after the last step";
  EXPECT_EQ(times_due(10, 25), 1);
}

TEST(Plan, MemoryIsThatOfItsParts) {
  PlanSubject s = small_subject();
  const RunMemory m = plan_memory(s);
  const Model model(s.config.model);
  EXPECT_GT(m.base, 1000);
  EXPECT_EQ(m.weights, 4 * param_buffer_elements(model.table));
  EXPECT_EQ(m.moments, 2 * m.weights);
  ThreadPool pool(2);
  const TrainingGraph graph(model, 12, 64, {}, {pool, *s.kernels});
  EXPECT_EQ(m.activations, graph.bytes());
  EXPECT_EQ(m.evaluation, 0);
  s.evaluates = true;
  EXPECT_GT(plan_memory(s).evaluation, 0);
  EXPECT_GT(plan_memory(s).total(), m.total());
}

TEST(Plan, FitsAreComputed) {
  const PlanSubject s = small_subject();
  const int64_t all = plan_memory(s).total();
  for (const int64_t available : {all - 1, all / 2, all / 3}) {
    for (const RunFit& fit : find_fits(s, available)) {
      EXPECT_LE(fit.bytes, available);
      EXPECT_EQ(12 % fit.micro_batch, 0);
      EXPECT_FALSE(fit.flags.empty());
      PlanSubject changed = s;
      changed.config.train.dtype = fit.dtype;
      changed.config.train.micro_batch = fit.micro_batch;
      changed.config.train.recompute = fit.recompute;
      EXPECT_EQ(plan_memory(changed).total(), fit.bytes) << fit.flags;
    }
  }
  EXPECT_FALSE(find_fits(s, all - 1).empty());
  EXPECT_EQ(find_fits(s, all - 1).front().flags, "--micro-batch 6");
  EXPECT_TRUE(find_fits(s, 10).empty());
}

TEST(Plan, TypicalIsTheMedian) {
  EXPECT_EQ(typical_seconds({}), 0);
  EXPECT_EQ(typical_seconds({3}), 3);
  EXPECT_EQ(typical_seconds({2, 100, 1}), 2);
}

TEST(Plan, TimeAddsUp) {
  PlanSubject s = small_subject();
  s.evaluates = true;
  TrainConfig& c = s.config.train;
  c.steps = 100;
  c.micro_batch = 4;
  c.eval_every = 50;
  c.eval_batches = 5;
  c.sample_every = 30;
  c.save_every = 0;
  const RunRates rates{.micro_batch = 3,
                       .accumulated = 2,
                       .update = 1,
                       .first = 9,
                       .evaluation = 0.5,
                       .sample = 7,
                       .bytes_per_second = 4000,
                       .file = 0,
                       .setup = 11};
  const RunTime t = plan_time(s, rates, 1000);
  EXPECT_DOUBLE_EQ(t.step, 3 + 2 * 2 + 1);
  EXPECT_DOUBLE_EQ(t.steps, 809);
  EXPECT_DOUBLE_EQ(t.evaluation, 2 * 5 * 3 * 0.5);
  EXPECT_DOUBLE_EQ(t.sampling, 4 * 7);
  EXPECT_DOUBLE_EQ(t.saving, 2 * 1 + 1 * 3);
  EXPECT_DOUBLE_EQ(t.total(), 809 + 15 + 28 + 5 + 11);
}

// Twelve shards on two ranks take six rounds of messages. A fast sum takes one round, and bf16 halves its
// bytes.
TEST(Plan, FastSumsAreSentOnce) {
  PlanSubject s = small_subject();
  s.processes = 2;
  s.link_bytes_per_second = 1e6;
  TrainConfig& c = s.config.train;
  c.grad_shards = 12;
  c.micro_batch = 1;
  const RunRates rates{.micro_batch = 3, .accumulated = 3, .update = 1};
  const auto planned = [&](Reduce reduce, int64_t zero) {
    c.reduce = reduce;
    c.zero = zero;
    return plan_exchange(s, rates);
  };
  const ExchangePlan fast = planned(Reduce::fast, 0);
  const int64_t once = fast.sent_bytes / 2;
  EXPECT_EQ(planned(Reduce::exact, 0).sent_bytes, 7 * once);
  EXPECT_EQ(planned(Reduce::fast_bf16, 0).sent_bytes, once);
  EXPECT_EQ(planned(Reduce::fast_bf16, 1).sent_bytes, once + once / 2) << "weights are not rounded";
  const double sent = static_cast<double>(once) / s.link_bytes_per_second, hidden = 0.65 * 2;
  EXPECT_NEAR(fast.seconds, 2 * sent, 0.01 * sent);
  EXPECT_NEAR(fast.exposed, std::max(0.0, 2 * sent - hidden), 0.01 * sent);
  EXPECT_NEAR(planned(Reduce::fast_bf16, 1).exposed, std::max(0.0, sent / 2 - hidden) + sent, 0.01 * sent);
}

// The expected maximum of eight normal variables is 1.42 standard deviations above their mean.
TEST(Plan, ProcessesWaitForTheSlowest) {
  std::vector<double> seconds;
  for (int i = 0; i < 101; ++i)
    seconds.push_back(10 + 0.01 * (i - 50));
  EXPECT_NEAR(relative_spread(seconds), 1.4826 * 0.25 / 10, 1e-3);
  EXPECT_EQ(relative_spread({}), 0);
  PlanSubject s = small_subject();
  s.link_bytes_per_second = 1e12;
  s.config.train.grad_shards = 8;
  s.config.train.batch_size = 8;
  s.config.train.micro_batch = 1;
  const RunRates rates{.micro_batch = 2, .accumulated = 2, .update = 1, .spread = 0.1};
  EXPECT_EQ(plan_exchange(s, rates).waiting, 0) << "alone";
  s.processes = 8;
  const ExchangePlan eight = plan_exchange(s, rates);
  EXPECT_NEAR(eight.waiting, 0.1 * 3 * 1.42, 0.1 * 3 * 0.12);
  EXPECT_DOUBLE_EQ(plan_time(s, rates, 1000).step, 3 + eight.exposed + eight.waiting);
}

}  // namespace
}  // namespace gpt

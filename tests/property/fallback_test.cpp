// Tests that training and generation use optimized kernels instead of the scalar reference, on every
// instruction set except `ref`.

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "infer/cached_model.h"
#include "infer/generate.h"
#include "model/inference.h"
#include "support/backend.h"
#include "support/small_models.h"
#include "train/train_step.h"

namespace gpt::test {
namespace {

// Ops whose only implementation is the reference. These ops process a few values or are called rarely.
const std::set<std::string> kOneImplementation = {
    "begin_step", "compact_rows", "find_nonfinite",     "finalize_grad_norm", "scale",
    "scaled_sum", "sum_losses",   "update_squares",     "select_candidates",  "range_squares",
    "muon",       "ema",          "scaled_sum_backward"};

// A device that records the ops that fall back to the reference.
class FallbackRecorder : public HostDevice {
 public:
  void on_fallback(const char* op) noexcept override {
    const std::lock_guard lock(mutex_);
    ops_.insert(op);
  }
  std::set<std::string> take() { return std::exchange(ops_, {}); }

 private:
  std::mutex mutex_;
  std::set<std::string> ops_;
};

// Returns a kernel table whose reference entries report each call to the device.
KernelTable with_recorded_references(Isa isa) {
  static const KernelTable reference = kernel_table(Isa::ref);
  KernelTable table = kernel_table(isa);
#define GPT_RECORD(op, Args)                                        \
  if (table.op == reference.op) {                                   \
    table.op = [](const ExecContext& ctx, const Args& a) noexcept { \
      ctx.device.on_fallback(#op);                                  \
      reference.op(ctx, a);                                         \
    };                                                              \
  }
  GPT_FOR_EACH_OP(GPT_RECORD)
#undef GPT_RECORD
  return table;
}

class Fallback : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (is_shadow()) GTEST_SKIP() << "host memory is enough";
  }
  void expect_no_fallback(const std::string& what) {
    for (const std::string& op : recorder_->take())
      EXPECT_TRUE(kOneImplementation.contains(op)) << what << ": " << op;
  }

  ThreadPool pool_{2};
  const KernelTable table_ = with_recorded_references(GetParam());
  const std::shared_ptr<FallbackRecorder> recorder_ = std::make_shared<FallbackRecorder>();
  const Backend backend_{pool_, table_, recorder_};
};

TEST_P(Fallback, NoneInTraining) {
  constexpr int64_t kBatch = 2, kTokens = 12;
  for (const SmallConfig& small : small_configs()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const char* optimizer : {"adamw", "muon", "muon-nanochat"}) {
        RandomModel random(make_config(small), DType::f32);
        const ParamTable& table = random.model.table;
        TrainStep step(random.model, random.weights, require_optimizer(optimizer).make(table, {}), backend_,
                       {.batch_size = kBatch,
                        .micro_batch = 1,
                        .n_ctx = kTokens,
                        .graph = {.dtype = dtype},
                        .clip_norm = 1,
                        .clip_value = 1});
        step.compute_gradients({.lr = 1e-3}, [&](int64_t, int64_t rows, const TrainStep::Samples& samples) {
          std::ranges::copy(random_ids(rows * kTokens, random.model.config.vocab_size, 1), samples.ids);
          std::ranges::copy(random_targets(rows * kTokens, random.model.config.vocab_size, 2),
                            samples.targets);
        });
        step.update();
        expect_no_fallback(small.name + " " + std::string(dtype_name(dtype)) + " " + optimizer);
      }
    }
  }
}

TEST_P(Fallback, NoneInInference) {
  for (const SmallConfig& small : small_configs()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const RandomModel random(make_config(small), DType::f32);
      Inference inference(random.model, backend_,
                          {.slots = 2, .capacity = random.model.config.n_ctx, .dtype = dtype});
      CachedModel model(inference, false);
      const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3, 4, 5}, {6, 7}};
      generate(model, prompts, {.max_tokens = 4, .sampling = {.temperature = 0.8, .top_k = 3}});
      expect_no_fallback(small.name + " " + std::string(dtype_name(dtype)));
    }
  }
}

std::vector<Isa> optimized_isas() {
  std::vector<Isa> isas = available_isas();
  std::erase(isas, Isa::ref);
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Isa, Fallback, testing::ValuesIn(optimized_isas()),
                         [](const auto& test) { return std::string(isa_name(test.param)); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Fallback);

}  // namespace
}  // namespace gpt::test

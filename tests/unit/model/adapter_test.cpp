// Tests sequences with different adapters in one batch. Each sequence must have the same result as alone and
// as a model with merged weights.

#include <gtest/gtest.h>

#include <deque>

#include "model/inference.h"
#include "support/adapted_model.h"
#include "support/backend.h"

namespace gpt::test {
namespace {

using Case = std::tuple<const char*, Isa, DType>;  // weight dtype of matmuls

class Adapters : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kTokens = 16;

  Adapters()
      : base_(
            make_config({"adapted", std::get<0>(GetParam()), R"({"n_ctx": 150, "n_embd": 32, "d_ff": 96})"}),
            DType::f32),
        first_(base_.model, DType::f32, 1),
        second_(base_.model, DType::f32, 2, {Role::v_weight, Role::down_proj_weight}, 5) {}

  Inference make(ThreadPool& pool, int slots, const Model& model) const {
    const DType weights = std::get<2>(GetParam());
    const InferenceTypes types = inference_types(weights);
    return {model,
            backend(pool, std::get<1>(GetParam())),
            {.slots = slots,
             .max_rows = 100,
             .dtype = types.activations,
             .weights = weights,
             .kv_dtype = types.cache,
             .adapter_rank = 5}};
  }
  TensorView logits(int64_t rows) {
    memory_.emplace_back(static_cast<size_t>(rows * vocab()) * sizeof(float), "test logits");
    return make_view(memory_.back().data(), DType::f32, {rows, vocab()});
  }
  int64_t vocab() const { return base_.model.config.vocab_size; }
  std::vector<int32_t> ids(uint64_t seed) const { return random_ids(kTokens, vocab(), seed); }
  // Computes a sequence alone, token by token. `number` is the adapter, or -1 for none.
  TensorView alone(const std::vector<int32_t>& tokens, int number, bool has_adapters = true) {
    ThreadPool pool(1);
    Inference inference = make(pool, 1, base_.model);
    if (has_adapters) {
      inference.add_adapter(first_.adapter);
      inference.add_adapter(second_.adapter);
      inference.reset(0, number);
    }
    const TensorView result = logits(kTokens);
    for (int64_t t = 0; t < kTokens; ++t)
      inference.append_all(0, std::span(tokens).subspan(static_cast<size_t>(t), 1), result.slice_rows(t, 1));
    return result;
  }

  RandomModel base_;
  RandomAdapter first_, second_;

 private:
  std::deque<Buffer> memory_;
};

TEST_P(Adapters, CompanyDoesNotMatter) {
  constexpr int kSlots = 5;
  constexpr int kNumber[kSlots] = {0, -1, 1, 0, -1};
  ThreadPool pool(3);
  Inference inference = make(pool, kSlots, base_.model);
  inference.add_adapter(first_.adapter);
  inference.add_adapter(second_.adapter);
  std::vector<std::vector<int32_t>> tokens;
  std::vector<TensorView> want;
  for (int slot = 0; slot < kSlots; ++slot) {
    tokens.push_back(ids(static_cast<uint64_t>(slot)));
    want.push_back(alone(tokens.back(), kNumber[slot]));
    inference.reset(slot, kNumber[slot]);
  }
  EXPECT_TRUE(same_bytes(want[1], alone(tokens[1], -1, false))) << "a sequence without an adapter";
  EXPECT_FALSE(same_bytes(want[0], alone(tokens[0], -1)));
  for (int64_t at = 0; at < kTokens;) {
    const int64_t n = std::min<int64_t>(kTokens - at, 1 + at % 4);
    std::vector<Inference::Append> batch;
    for (int slot = kSlots; slot-- > 0;)
      batch.push_back({slot,
                       std::span(tokens[static_cast<size_t>(slot)])
                           .subspan(static_cast<size_t>(at), static_cast<size_t>(n)),
                       slot == 3 ? n : 1});
    const TensorView got = logits(kSlots - 1 + n);
    inference.append(batch, got);
    int64_t row = 0;
    for (const Inference::Append& a : batch) {
      ASSERT_TRUE(same_bytes(got.slice_rows(row, a.wanted),
                             want[static_cast<size_t>(a.slot)].slice_rows(at + n - a.wanted, a.wanted)))
          << "slot " << a.slot << ", after " << at + n;
      row += a.wanted;
    }
    at += n;
  }
}

TEST_P(Adapters, AreMergedWeights) {
  if (std::get<2>(GetParam()) != DType::f32) GTEST_SKIP() << "only fp32 weights can be merged exactly";
  RandomModel merged(base_.model.config, DType::f32);
  for (int id = 0; id < merged.model.table.count(); ++id) {
    const LowRank* product = first_.adapter->find(id);
    if (product == nullptr) continue;
    const TensorView &low = first_.adapter->a(*product), &high = first_.adapter->b(*product);
    const TensorView w = merged.weights[id];
    for (int64_t o = 0; o < w.rows(); ++o) {
      for (int64_t i = 0; i < w.cols(); ++i) {
        double sum = get(w, o, i);
        for (int64_t r = 0; r < first_.adapter->rank; ++r)
          sum += product->scale * get(high, o, r) * get(low, r, i);
        set(w, o, i, sum);
      }
    }
  }
  ThreadPool pool(1);
  Inference inference = make(pool, 1, merged.model);
  const std::vector<int32_t> tokens = ids(7);
  const TensorView want = logits(kTokens), got = alone(tokens, 0);
  inference.append_all(0, tokens, want);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t v = 0; v < vocab(); ++v)
      EXPECT_NEAR(get(got, t, v), get(want, t, v), 2e-4)
          << t;  // sums of 32 to 96 in a different order, two layers
  }
}

// Cached tokens of a sequence with one adapter cannot be reused with a different adapter.
TEST_P(Adapters, SequencesWithOtherAdaptersShareNothing) {
  ThreadPool pool(1);
  Inference inference = make(pool, 3, base_.model);
  inference.add_adapter(first_.adapter);
  inference.add_adapter(second_.adapter);
  const std::vector<int32_t> tokens = ids(3);
  inference.reset(0, 0);
  inference.append_all(0, tokens, logits(kTokens));
  for (const int number : {-1, 1, 0}) {
    inference.reset(1, number);
    EXPECT_EQ(inference.reuse(1, tokens), number == 0 ? kTokens - 1 : 0) << number;
  }
  inference.copy(0, 2);  // copies the adapter, too
  inference.truncate(2, 4);
  const TensorView got = logits(kTokens - 4), want = alone(tokens, 0);
  inference.append_all(2, std::span(tokens).subspan(4), got);
  EXPECT_TRUE(same_bytes(got, want.slice_rows(4, kTokens - 4)));
  inference.reset(0);
  EXPECT_EQ(inference.reuse(0, tokens), 0);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto& [family, isa, dtype] = info.param;
  return fmt::format("{}_{}_{}", family, isa_name(isa), dtype_name(dtype));
}
INSTANTIATE_TEST_SUITE_P(All, Adapters,
                         testing::Combine(testing::Values("gpt2", "llama"),
                                          testing::ValuesIn(available_isas()),
                                          testing::Values(DType::f32, DType::bf16, DType::q8_0)),
                         case_name);

}  // namespace
}  // namespace gpt::test

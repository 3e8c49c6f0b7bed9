// Tests that the predicted memory of inference equals the allocated memory.

#include <gtest/gtest.h>

#include "model/inference.h"
#include "support/small_models.h"

namespace gpt {
namespace {

TEST(Inference, TakesThePlannedBytes) {
  for (const char* name : {"gpt2", "llama", "nanochat_gqa", "toy_shared_kv"}) {
    const test::RandomModel random(test::make_config(test::small_config(name)), DType::f32);
    for (const Inference::Options& options : {Inference::Options{},
                                              {.slots = 3, .max_rows = 2, .capacity = 8},
                                              {.slots = 4, .cache_tokens = 100},
                                              {.slots = 2, .dtype = DType::bf16, .kv_dtype = DType::i8}}) {
      ThreadPool pool(2);
      const Inference inference(random.model, test::backend(pool, best_isa()), options);
      EXPECT_EQ(Inference::planned_bytes(random.model.config, options, kernel_table(best_isa()), 2),
                inference.bytes())
          << name;
    }
  }
}

// Short windows take less memory than a cache that stores all tokens of every layer.
TEST(Inference, PlansShortWindows) {
  const test::SmallConfig toy{"", "llama", R"({"n_ctx": 1000, "n_layer": 7, "n_kv_head": 2})",
                              test::toy_shared_kv, 3};
  const test::RandomModel random(test::make_config(toy), DType::f32);
  const Inference::Options options{.slots = 3, .max_rows = 20};
  ThreadPool pool(2);
  const Inference inference(random.model, test::backend(pool, best_isa()), options);
  EXPECT_EQ(Inference::planned_bytes(random.model.config, options, kernel_table(best_isa()), 2),
            inference.bytes());
  const int64_t block = KvCache::bytes(random.model.config, KvCache::kBlock, DType::f32);
  const KvCache::Options cache{.slots = 3, .capacity = 1000, .step = 20};
  // The layer that sees all tokens takes 17 pages, and each of the two layers with short windows takes 3.
  EXPECT_EQ(KvCache::bytes(random.model.config, cache), 3 * (17 + 3 + 3) * block / 3);
}

}  // namespace
}  // namespace gpt

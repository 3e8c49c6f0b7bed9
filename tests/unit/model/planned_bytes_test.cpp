// What inference takes is known before it is allocated.

#include <gtest/gtest.h>

#include "model/inference.h"
#include "support/small_models.h"

namespace gpt {
namespace {

TEST(Inference, TakesThePlannedBytes) {
  for (const char* name : {"gpt2", "llama", "nanochat_gqa"}) {
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

}  // namespace
}  // namespace gpt

#include "run/same_run.h"

#include <gtest/gtest.h>

#include "support/small_models.h"

namespace gpt::test {
namespace {

TEST(WeightsHash, ChangesWithAnyWeight) {
  const RandomModel random(make_config({"gpt2", "gpt2", "{}"}), DType::f32);
  const RandomModel same(make_config({"gpt2", "gpt2", "{}"}), DType::f32);
  const std::string before = weights_hash(random.model);
  EXPECT_EQ(weights_hash(same.model), before);
  for (int id = 0; id < random.model.table.count(); ++id) {
    const double kept = get(random.weights[id], 0, 0);
    set(random.weights[id], 0, 0, kept + 1);
    EXPECT_NE(weights_hash(random.model), before) << random.model.table[id].name;
    set(random.weights[id], 0, 0, kept);
  }
  EXPECT_EQ(weights_hash(random.model), before);
}

}  // namespace
}  // namespace gpt::test

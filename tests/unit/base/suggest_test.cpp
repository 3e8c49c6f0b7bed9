#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/names.h"

namespace gpt {
namespace {

const std::vector<std::string> kWords = {"n_layer", "n_head", "n_kv_head", "lr", "warmup"};

TEST(DidYouMean, FindsTheClosest) {
  EXPECT_TRUE(test::names(did_you_mean("n_layers", kWords), {"n_layer"}));
  EXPECT_TRUE(test::names(did_you_mean("n_kv_heads", kWords), {"n_kv_head"}));
  EXPECT_TRUE(test::names(did_you_mean("wramup", kWords), {"warmup"}));
  EXPECT_TRUE(test::names(did_you_mean("l", kWords), {"lr"}));
  EXPECT_TRUE(test::names(did_you_mean("lr", kWords), {"lr"}));
  EXPECT_TRUE(test::names(did_you_mean("--N_Head", kWords), {"n_head"}));
}

TEST(DidYouMean, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(did_you_mean("tokenizer", kWords), "");
  EXPECT_EQ(did_you_mean("n_layer", {}), "");
  const std::vector<std::string> flags = {"-c", "--eps", "--norm", "--num-layers"};
  for (const char* word : {"-m", "--gpu", "--lora", "--num-workers"})
    EXPECT_EQ(did_you_mean(word, flags), "") << word;
  EXPECT_EQ(did_you_mean(std::string(100000, 'x'), kWords), "");
}

}  // namespace
}  // namespace gpt

#include "convert/hf_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpt::test {
namespace {

using nlohmann::json;

// scripts/check-exports checks how transformers reads this config.
TEST(HfTokenizerConfig, NamesTheAddedTokensThatTheModelEndsAndPadsWith) {
  const auto tokenizer = load_tokenizer(GPT_SOURCE_DIR "/tests/data/bpe.tokenizer.json");
  const int64_t end = tokenizer->encode_special("<|end|>").at(0);
  ModelConfig config;
  config.n_ctx = 77;
  config.eos_token_ids = {end, 3};
  json found = json::parse(hf_tokenizer_config(*tokenizer, config));
  EXPECT_EQ(found["model_max_length"], 77);
  EXPECT_EQ(found["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(found["eos_token"], "<|end|>");
  EXPECT_EQ(found["pad_token"], "<|end|>");

  found = json::parse(hf_tokenizer_config(*tokenizer, config, {{"pad_token", "<|pad|>"}}));
  EXPECT_EQ(found["eos_token"], "<|end|>");
  EXPECT_EQ(found["pad_token"], "<|pad|>");

  config.eos_token_ids = {65};  // part of a word; transformers would split words at this token
  config.bos_token_id = end;
  found = json::parse(hf_tokenizer_config(*tokenizer, config));
  EXPECT_FALSE(found.contains("eos_token"));
  EXPECT_EQ(found["bos_token"], "<|end|>");
}

}  // namespace
}  // namespace gpt::test

#include "model/families/gguf_keys.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/io/gguf_bytes.h"
#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

using B = GgufBytes;
using T = GgufType;

// Returns the GGUF metadata of a llama with one layer and an embedding of 8 rows, without the keys in
// `without`.
B llama(const std::vector<std::string>& without = {}) {
  B b;
  const auto add = [&](const std::string& key, uint32_t value) {
    if (std::find(without.begin(), without.end(), key) == without.end()) b.add("llama." + key, value);
  };
  b.add("general.architecture", "llama");
  add("context_length", 32);
  add("embedding_length", 16);
  add("block_count", 1);
  add("feed_forward_length", 24);
  add("attention.head_count", 4);
  add("attention.head_count_kv", 2);
  b.add("llama.attention.layer_norm_rms_epsilon", T::f32, B::raw(1e-5f));
  b.tensor("token_embd.weight", {16, 8}, 0, 0);
  return b;
}

const std::string kData(512, '\0');

ModelConfig config_of(const B& b, const std::string& data = kData) {
  const std::string file = b.file(data);
  return gguf_config(GgufFile(as_bytes(file), "t"));
}
testing::AssertionResult refuses(const B& b, std::initializer_list<Fact> facts,
                                 const std::string& data = kData) {
  return refused([&] { config_of(b, data); }, "t", facts);
}

TEST(GgufConfig, ReadsALlama) {
  const ModelConfig c = config_of(llama()
                                      .add("llama.rope.freq_base", T::f32, B::raw(500000.0f))
                                      .add("llama.rope.scaling.type", "linear")
                                      .add("llama.rope.scaling.factor", T::f32, B::raw(4.0f))
                                      .add("tokenizer.ggml.bos_token_id", 1)
                                      .add("tokenizer.ggml.eos_token_id", 2)
                                      .add("tokenizer.ggml.eot_token_id", 3)
                                      .add("tokenizer.ggml.eom_token_id", 5));
  EXPECT_EQ(c.n_ctx, 32);
  EXPECT_EQ(c.n_embd, 16);
  EXPECT_EQ(c.n_layer, 1);
  EXPECT_EQ(c.d_ff, 24);
  EXPECT_EQ(c.n_head, 4);
  EXPECT_EQ(c.n_kv_head, 2);
  EXPECT_EQ(c.head_dim, 4);
  EXPECT_EQ(c.vocab_size, 8);
  EXPECT_EQ(c.rope_layout, RopeLayout::interleaved);
  EXPECT_EQ(c.rope_theta, 500000);
  EXPECT_EQ(c.rope_scaling.type, RopeScaling::Type::linear);
  EXPECT_EQ(c.rope_scaling.factor, 4);
  EXPECT_TRUE(c.tie_embeddings);
  EXPECT_EQ(c.bos_token_id, 1);
  EXPECT_EQ(c.eos_token_ids, (std::vector<int64_t>{2, 3, 5}));
}

TEST(GgufConfig, RefusesWhatItCannotCompute) {
  EXPECT_TRUE(refuses(B(), {"general.architecture"}));
  EXPECT_TRUE(refuses(B().add("general.architecture", "mamba"), {"mamba"}));
  EXPECT_TRUE(refuses(llama().add("llama.expert_count", 8), {"llama.expert_count", 8}));
  EXPECT_TRUE(refuses(llama().add("llama.attention.clamp_kqv", 8), {"llama.attention.clamp_kqv", 8}));
  EXPECT_TRUE(refuses(llama().add("llama.rope.scaling.type", "yarn"), {"llama.rope.scaling.type", "yarn"}));
  EXPECT_TRUE(refuses(llama().add("llama.rope.dimension_count", 2), {"llama.rope.dimension_count", 4, 2}));
  EXPECT_TRUE(
      refuses(llama().add("llama.attention.value_length", 2), {"llama.attention.value_length", 4, 2}));
  for (const char* key :
       {"context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"}) {
    EXPECT_TRUE(refuses(llama({key}), {std::string("llama.") + key}));
  }
}

TEST(GgufConfig, OtherModelsSettingsAreReadAsFarAsTheyChangeNothing) {
  EXPECT_EQ(config_of(llama()
                          .add("llama.expert_count", 0)
                          .add("llama.expert_used_count", 0)
                          .add("llama.expert_shared_count", 0)
                          .add("llama.rope.scaling.attn_factor", T::f32, B::raw(1.0f))
                          .add("llama.logit_scale", T::f32, B::raw(1.0f))
                          .add("llama.attention.causal", T::boolean, "\1")
                          .add("llama.attention.max_alibi_bias", T::f32, B::raw(0.0f))
                          .add("llama.nextn_predict_layers", 0)
                          .add("general.type", "model")
                          .add("general.some_new_key", 7)
                          .add("quantize.imatrix.entries_count", 7)
                          .add("tokenizer.ggml.fim_pre_token_id", 1)
                          .add("split.count", 1))
                .n_layer,
            1);
  EXPECT_TRUE(
      refuses(llama().add("llama.logit_scale", T::f32, B::raw(0.5f)), {"llama.logit_scale", "0.5", 1}));
  EXPECT_TRUE(refuses(llama().add("llama.attention.causal", T::boolean, std::string(1, '\0')),
                      {"llama.attention.causal", 0, 1}));
  EXPECT_TRUE(refuses(llama().add("llama.logit_scale", "2"), {"llama.logit_scale", 8}));
  EXPECT_TRUE(refuses(llama().add("llama.brand_new", 1), {"llama.brand_new"}));
  EXPECT_TRUE(refuses(llama().add("general.type", "adapter"), {"general.type", "adapter"}));
  EXPECT_TRUE(refuses(llama().add("split.count", 3), {3, "llama-gguf-split"}));
}

TEST(GgufConfig, RefusesImpossibleHeads) {
  EXPECT_TRUE(refuses(llama({"attention.head_count"}).add("llama.attention.head_count", 0),
                      {"llama.attention.head_count", 0}));
  EXPECT_TRUE(refuses(llama({"attention.head_count_kv"}).add("llama.attention.head_count_kv", 0),
                      {"llama.attention.head_count_kv", 0}));
  EXPECT_TRUE(refuses(llama({"attention.head_count"})
                          .add("llama.attention.head_count", T::array, B::numbers<int32_t>(T::i32, {4, 2})),
                      {"llama.attention.head_count"}));
  EXPECT_TRUE(refuses(llama({"attention.head_count"})
                          .add("llama.attention.head_count", T::array, B::numbers<int32_t>(T::i32, {})),
                      {"llama.attention.head_count"}));
  EXPECT_TRUE(refuses(llama({"attention.head_count"}).add("llama.attention.head_count", "4"),
                      {"llama.attention.head_count", 8}));
}

TEST(GgufConfig, ReadsLlama3sFrequencyFactors) {
  B b = llama().tensor(kRopeFactors, {2}, 0, 512);
  const auto with = [&](float a, float c) { return kData + B::raw(a) + B::raw(c); };
  EXPECT_EQ(config_of(b, with(1, 8)).rope_scaling.factor, 8);
  EXPECT_TRUE(refuses(b, {kRopeFactors}, with(3, 8)));
  EXPECT_TRUE(refuses(b, {kRopeFactors}, with(0, -1)));
  EXPECT_TRUE(refuses(b, {kRopeFactors}, with(NAN, NAN)));
}

// The keys are interpreted like in llama.cpp.
TEST(GgufConfig, RopeFactorsWithoutATypeAreLinear) {
  const auto scaling = [](B& b) { return config_of(b).rope_scaling; };
  EXPECT_EQ(scaling(llama().add("llama.rope.scaling.factor", T::f32, B::raw(4.0f))).factor, 4);
  EXPECT_EQ(scaling(llama().add("llama.rope.scaling.factor", T::f32, B::raw(4.0f))).type,
            RopeScaling::Type::linear);
  EXPECT_EQ(scaling(llama().add("llama.rope.scale_linear", T::f32, B::raw(3.0f))).factor, 3);
  EXPECT_EQ(scaling(llama()
                        .add("llama.rope.scale_linear", T::f32, B::raw(3.0f))
                        .add("llama.rope.scaling.factor", T::f32, B::raw(2.0f)))
                .factor,
            2);
  EXPECT_EQ(scaling(llama().add("llama.rope.scaling.factor", T::f32, B::raw(0.0f))).type,
            RopeScaling::Type::none);
  EXPECT_EQ(scaling(llama()
                        .add("llama.rope.scaling.type", "none")
                        .add("llama.rope.scaling.factor", T::f32, B::raw(4.0f)))
                .type,
            RopeScaling::Type::none);
  EXPECT_TRUE(refuses(
      llama().add("llama.rope.scaling.factor", T::f32, B::raw(4.0f)).tensor(kRopeFactors, {2}, 0, 512),
      {"llama.rope.scaling.factor", 4, kRopeFactors}, kData + B::raw(1.0f) + B::raw(8.0f)));
}

TEST(GgufConfig, WindowsHaveNoEffectInTheseArchitectures) {
  EXPECT_EQ(config_of(llama().add("llama.attention.sliding_window", 4)).sliding_window, 0);
}

}  // namespace
}  // namespace gpt

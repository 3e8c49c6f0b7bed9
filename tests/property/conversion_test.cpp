// Tests that conversions between file formats preserve the model.

#include "convert/conversion.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "io/safetensors.h"
#include "model/inference.h"
#include "support/backend.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

std::string convert(const std::string& from, const std::string& to, const ConversionOptions& options) {
  const LoadedModel loaded(from);
  const Conversion conversion(loaded, options);
  conversion.write(to);
  return to;
}

// Returns the logits of a fixed list of ids, one row per id.
std::vector<float> logits_of(const std::string& path) {
  const LoadedModel loaded(path, DType::f32, MatrixOrder::rows, {}, device());
  ThreadPool pool(1);
  Inference inference(loaded.model(), backend(pool, Isa::ref), {.slots = 1, .max_rows = 8});
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5};
  std::vector<float> logits(ids.size() * static_cast<size_t>(loaded.model().config.vocab_size));
  inference.append_all(0, ids, make_view(logits.data(), {5, loaded.model().config.vocab_size}));
  return logits;
}

void expect_close(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

std::string refusal(const ModelConfig& c, const ConversionOptions& options) {
  const RandomModel random(c, DType::f32);
  TempDir dir;
  write_model(dir.path(), random.model, random.model.weights);
  const LoadedModel loaded(dir.path());
  try {
    const Conversion conversion(loaded, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Converted : public testing::TestWithParam<SmallConfig> {};

// Converts every architecture to the layout of transformers, as one file and in shards of any size.
TEST_P(Converted, ToTransformersAndBack) {
  const RandomModel random(make_config(GetParam()), DType::f32);
  TempDir from, whole, shards;
  write_model(from.path(), random.model, random.model.weights);
  convert(from.path(), whole.path(), {});
  convert(from.path(), shards.path(), {.shard_bytes = 2000});
  EXPECT_FALSE(std::filesystem::exists(shards.file("model.safetensors")));
  EXPECT_TRUE(std::filesystem::exists(shards.file("model.safetensors.index.json")));
  const LoadedModel loaded(shards.path());
  const SafetensorsFile one(whole.file("model.safetensors"));
  for (const LoadedModel::Origin& origin : loaded.origins()) {
    const TensorInfo* same = one.find(origin.tensor->name);
    ASSERT_NE(same, nullptr) << origin.tensor->name;
    EXPECT_TRUE(std::equal(same->bytes.begin(), same->bytes.end(), origin.tensor->bytes.begin(),
                           origin.tensor->bytes.end()));
  }
  expect_close(logits_of(from.path()), logits_of(shards.path()));
}

INSTANTIATE_TEST_SUITE_P(Configs, Converted, testing::ValuesIn(small_configs()),
                         [](const auto& param) { return test_name(param.param.name); });

TEST(Conversion, SixteenBitTypesRoundOnce) {
  const RandomModel random(make_config(small_config("llama")), DType::f32);
  TempDir from, half, again;
  write_model(from.path(), random.model, random.model.weights);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    convert(from.path(), half.path(), {.dtype = dtype});
    const SafetensorsFile file(half.file("model.safetensors"));
    for (const TensorInfo& tensor : file.tensors())
      EXPECT_EQ(tensor.dtype, dtype);
    convert(half.path(), again.path(), {});
    EXPECT_EQ(read_file(again.file("model.safetensors")), read_file(half.file("model.safetensors")))
        << "the type of the source is kept";
  }
}

TEST(Conversion, LlmcBothWays) {
  for (const char* keys :
       {R"({"d_ff": 64})", R"({"d_ff": 64, "norm_bias": false, "qkv_bias": false, "mlp_bias": false})"}) {
    const RandomModel random(make_config({"gpt2", "gpt2", keys}), DType::f32);
    TempDir dir, back;
    write_model(dir.path(), random.model, random.model.weights);
    const std::string file = convert(dir.path(), dir.file("model.bin"), {.to = ModelFormat::llmc});
    expect_close(logits_of(dir.path()), logits_of(file));
    convert(file, back.path(), {});
    expect_close(logits_of(dir.path()), logits_of(back.path()));
    EXPECT_EQ(LoadedModel(back.path()).model().config.act, Act::gelu_tanh);
    const std::string bf16 =
        convert(file, dir.file("half.bin"), {.to = ModelFormat::llmc, .dtype = DType::bf16});
    EXPECT_EQ(LoadedModel(bf16).origins()[0].tensor->dtype, DType::bf16);
  }
}

TEST(Conversion, Llama2cBothWays) {
  for (const char* keys :
       {R"({"norm_eps": 1e-5})", R"({"norm_eps": 1e-5, "n_kv_head": 2, "tie_embeddings": true})"}) {
    const RandomModel random(make_config({"llama", "llama", keys}), DType::f32);
    TempDir dir, back;
    write_model(dir.path(), random.model, random.model.weights);
    const std::string file = convert(dir.path(), dir.file("model.bin"), {.to = ModelFormat::llama2c});
    EXPECT_EQ(LoadedModel(file).model().config.rope_layout, RopeLayout::interleaved);
    expect_close(logits_of(dir.path()), logits_of(file));
    convert(file, back.path(), {});
    EXPECT_EQ(export_family(LoadedModel(back.path()).model().config).name, "llama");
    EXPECT_EQ(read_file(dir.file("model.safetensors")), read_file(back.file("model.safetensors")))
        << "rows come back to their places";
  }
}

TEST(Conversion, SaysWhatAFormatCannotHold) {
  const ConversionOptions llmc = {.to = ModelFormat::llmc}, llama2c = {.to = ModelFormat::llama2c};
  const auto gpt2 = [](const char* keys) { return make_config({"gpt2", "gpt2", keys}); };
  const auto llama = [](const char* keys) { return make_config({"llama", "llama", keys}); };
  EXPECT_TRUE(test::names(refusal(gpt2("{}"), llmc), {"d_ff", 64, 24}));
  EXPECT_EQ(refusal(gpt2(R"({"d_ff": 64})"), llmc), "no error");
  EXPECT_NE(refusal(gpt2(R"({"d_ff": 64, "act": "gelu"})"), llmc), "no error");
  EXPECT_NE(refusal(gpt2(R"({"d_ff": 64, "tie_embeddings": false})"), llmc), "no error");
  EXPECT_NE(refusal(gpt2(R"({"d_ff": 64, "norm_eps": 1e-6})"), llmc), "no error");
  EXPECT_NE(refusal(llama(R"({"norm_eps": 1e-5})"), llmc), "no error");
  EXPECT_EQ(refusal(llama(R"({"norm_eps": 1e-5})"), llama2c), "no error");
  EXPECT_NE(refusal(llama("{}"), llama2c), "no error") << "norm_eps is 1e-6";
  EXPECT_NE(refusal(llama(R"({"norm_eps": 1e-5, "rope_theta": 500})"), llama2c), "no error");
  EXPECT_NE(refusal(llama(R"({"norm_eps": 1e-5, "head_dim": 6})"), llama2c), "no error");
  EXPECT_NE(refusal(llama(R"({"norm_eps": 1e-5, "qkv_bias": true})"), llama2c), "no error");
  EXPECT_NE(refusal(make_config(small_config("nanochat")), llama2c), "no error");
  EXPECT_TRUE(
      test::names(refusal(llama(R"({"norm_eps": 1e-5, "rope_dtype": "bf16"})"), llama2c), {"rope_dtype"}));
  EXPECT_TRUE(test::names(refusal(llama(R"({"norm_eps": 1e-5, "n_layer": 0})"), llama2c), {"n_layer"}));
  EXPECT_TRUE(test::names(refusal(gpt2(R"({"d_ff": 64, "n_layer": 0})"), llmc), {"n_layer"}));
}

// The format of nanoGPT checkpoints: layer matrices [out,in], a tied head, masks, and torch.compile prefixes.
TEST(Conversion, NanoGptCheckpoint) {
  const std::string data = GPT_SOURCE_DIR "/tests/data/torch/";
  const LoadedModel loaded(data + "nanogpt.pt");
  const ModelConfig& c = loaded.model().config;
  EXPECT_EQ(c.n_ctx, 6);
  EXPECT_EQ(c.vocab_size, 11);
  EXPECT_EQ(c.act, Act::gelu);
  EXPECT_FALSE(c.qkv_bias || c.out_bias || c.mlp_bias || c.norm_bias);
  const SafetensorsFile expected(data + "nanogpt.safetensors");
  const TensorView k =
      loaded.model().weights[static_cast<size_t>(loaded.model().table.find(Role::k_weight, 1))];
  const TensorInfo* fused = expected.find("transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(std::memcmp(k.data, fused->bytes.data() + 8 * 8 * 4, 8 * 8 * 4), 0);
  EXPECT_EQ(loaded.ignored().size(), 3u) << "two masks and the tied head";
  TempDir out;
  const Conversion conversion(loaded, {});
  EXPECT_EQ(conversion.target(), "gpt2") << "its missing biases are zero";
  conversion.write(out.path());
  expect_close(logits_of(data + "nanogpt.pt"), logits_of(out.path()));
}

TEST(Conversion, NanochatCheckpoint) {
  const std::string data = GPT_SOURCE_DIR "/tests/data/torch/";
  const LoadedModel loaded(data + "model_000010.pt");
  EXPECT_EQ(export_family(loaded.model().config).name, "nanochat");
  EXPECT_EQ(&loaded.naming(), family::nanochat_doc.namings[0]);
  EXPECT_EQ(loaded.origins()[0].tensor->dtype, DType::bf16);
  TempDir out;
  convert(data + "model_000010.pt", out.path(), {.dtype = DType::f32});
  expect_close(logits_of(data + "model_000010.pt"), logits_of(out.path()));
}

// ---------------------------------------------------------------------------------------------------
// 16-bit weights that are used in their stored dtype.

std::vector<float> stored_logits(const LoadedModel& loaded, Isa isa, DType weights, bool in_place) {
  ThreadPool pool(2);
  Inference inference(loaded.model(), backend(pool, isa),
                      {.slots = 1, .max_rows = 8, .weights = weights, .in_place = in_place});
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5};
  std::vector<float> logits(ids.size() * static_cast<size_t>(loaded.model().config.vocab_size));
  inference.append_all(0, ids, make_view(logits.data(), {5, loaded.model().config.vocab_size}));
  return logits;
}

TEST(StoredTypes, GiveTheSameBitsAsWidenedWeightsPackedOrNot) {
  for (const char* family : {"llama", "gpt2", "nanochat", "mini-gpt"}) {
    const RandomModel random(make_config(small_config(family)), DType::f32);
    TempDir from, half;
    write_model(from.path(), random.model, random.model.weights);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      write_model(half.path(), random.model, random.model.weights, {.dtype = dtype});
      const LoadedModel wide(half.path(), DType::f32, MatrixOrder::rows, {}, device());
      const LoadedModel stored(half.path(), std::nullopt, MatrixOrder::rows, {}, device());
      const LoadedModel as_is(half.path(), std::nullopt, MatrixOrder::as_stored, {}, device());
      EXPECT_EQ(stored.model().weights[0].dtype, dtype);
      for (const Isa isa : available_isas()) {
        for (const DType compute : {DType::f32, dtype, DType::q8_0}) {
          const std::vector<float> expected = stored_logits(wide, isa, compute, false);
          EXPECT_EQ(stored_logits(stored, isa, compute, false), expected) << family << isa_name(isa);
          EXPECT_EQ(stored_logits(stored, isa, compute, true), expected) << family << isa_name(isa);
          EXPECT_EQ(stored_logits(as_is, isa, compute, false), expected) << family << isa_name(isa);
          EXPECT_EQ(stored_logits(as_is, isa, compute, true), expected) << family << isa_name(isa);
        }
      }
    }
  }
}

TEST(StoredTypes, MatricesAreNotCopied) {
  const RandomModel random(make_config(small_config("llama")), DType::f32);
  TempDir dir;
  write_model(dir.path(), random.model, random.model.weights, {.dtype = DType::bf16});
  const LoadedModel stored(dir.path(), std::nullopt);
  int64_t vectors = 0;
  for (const ParamSpec& spec : stored.model().table.specs())
    vectors += spec.shape.size() == 1 ? spec.size() * int64_t{sizeof(float)} : 0;
  EXPECT_EQ(stored.copied_bytes(), vectors);
}

}  // namespace
}  // namespace gpt::test

#include "convert/gguf_export.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "convert/gguf_vocab.h"
#include "io/gguf.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "support/error_of.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

std::vector<float> logits_of(const Model& model, const std::vector<int32_t>& ids) {
  ThreadPool pool(1);
  Inference inference(model, pool, kernel_table(best_isa()), {});
  std::vector<float> logits(ids.size() * static_cast<size_t>(model.config.vocab_size));
  inference.append_all(0, ids, make_view(logits.data(), {std::ssize(ids), model.config.vocab_size}));
  return logits;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(double{a[i]} - b[i]));
  return most;
}

// A model whose rows are whole blocks of every type.
SmallConfig wide(const std::string& family, const std::string& more) {
  return {family, family,
          R"({"vocab_size": 64, "n_embd": 256, "d_ff": 512, "n_head": 4, "n_layer": 1, )" + more + "}"};
}

TEST(GgufExport, ModelsComeBackWithTheSameLogits) {
  int written = 0;
  for (const SmallConfig& small : small_configs()) {
    const RandomModel random(make_config(small), DType::f32);
    TempDir dir;
    const std::string path = dir.file("m.gguf");
    const std::string refused =
        error_of([&] { write_gguf(path, random.model, random.model.weights, nullptr, {}); });
    if (refused != "no error") {
      EXPECT_NE(refused.find("cannot write this model as GGUF"), std::string::npos) << refused;
      continue;
    }
    ++written;
    const LoadedModel loaded(path);
    EXPECT_EQ(loaded.copied_bytes(), 0) << small.name;
    ModelConfig c = loaded.model().config;
    if (c.position == Position::rope) {
      EXPECT_EQ(c.rope_layout, RopeLayout::interleaved);
      c.rope_layout = random.model.config.rope_layout;
    }
    EXPECT_EQ(c.rope_scaling, random.model.config.rope_scaling) << small.name;
    const std::vector<int32_t> ids = random_ids(10, c.vocab_size, 3);
    // The order of the sums of queries and keys is another one.
    EXPECT_LT(largest_difference(logits_of(loaded.model(), ids), logits_of(random.model, ids)), 2e-5)
        << small.name;
  }
  EXPECT_GE(written, 10);
}

TEST(GgufExport, MatricesAreBlocksThatAreUsedInPlace) {
  for (const SmallConfig& small : {wide("llama", R"("n_kv_head": 2)"), wide("gpt2", R"("n_ctx": 16)"),
                                   wide("qwen2", R"("n_kv_head": 2)")}) {
    const RandomModel random(make_config(small), DType::f32);
    const std::vector<int32_t> ids = random_ids(10, 64, 3);
    const std::vector<float> exact = logits_of(random.model, ids);
    double range = 0;
    for (const float x : exact)
      range = std::max(range, std::abs(double{x}));
    for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k,
                              DType::q5_k, DType::q6_k}) {
      TempDir dir;
      const std::string path = dir.file("m.gguf");
      EXPECT_TRUE(write_gguf(path, random.model, random.model.weights, nullptr, {.dtype = dtype}).empty());
      const LoadedModel loaded(path);
      EXPECT_EQ(loaded.copied_bytes(), 0);
      const Model& m = loaded.model();
      EXPECT_EQ(m.weights[static_cast<size_t>(m.table.find(Role::q_weight, 0))].dtype, dtype);
      EXPECT_EQ(m.weights[static_cast<size_t>(m.table.find(Role::norm1_gain, 0))].dtype, DType::f32);
      // 4 bits leave an error of about a tenth of the standard deviation in each product.
      const double bound = dtype == DType::q8_0 || dtype == DType::q6_k ? 0.1 : 0.5;
      EXPECT_LT(largest_difference(logits_of(m, ids), exact), bound * range)
          << small.name << dtype_name(dtype);

      // Written again nothing changes, and for training blocks become numbers.
      write_gguf(dir.file("again.gguf"), m, m.weights, nullptr, {.dtype = dtype});
      EXPECT_EQ(read_file(dir.file("again.gguf")), read_file(path)) << small.name << dtype_name(dtype);
      const ParamBuffer copy(m.table, DType::f32, "copy");
      loaded.copy_to(copy);
      const LoadedModel numbers(path, DType::f64);
      for (int id = 0; id < m.table.count(); ++id)
        EXPECT_EQ(double{copy[id].as<float>()[5]},
                  numbers.model().weights[static_cast<size_t>(id)].as<double>()[5]);
    }
  }
}

TEST(GgufExport, ReportsRowsThatAreNotWholeBlocks) {
  const RandomModel random(
      make_config({"odd", "llama", R"({"n_embd": 64, "d_ff": 40, "tie_embeddings": true})"}), DType::f32);
  TempDir dir;
  const auto fallbacks =
      write_gguf(dir.file("m.gguf"), random.model, random.model.weights, nullptr, {.dtype = DType::q4_k});
  ASSERT_FALSE(fallbacks.empty());
  const auto used = [&](const std::string& name) {
    for (const GgufFallback& f : fallbacks) {
      if (f.tensor == name) return f.used;
    }
    return DType::f32;
  };
  EXPECT_EQ(used("token_embd.weight"), DType::q8_0);  // q6_k, as the matrix of the head
  EXPECT_EQ(used("blk.0.attn_q.weight"), DType::q5_0);
  EXPECT_EQ(used("blk.1.ffn_down.weight"), DType::f16);
  EXPECT_EQ(logits_of(LoadedModel(dir.file("m.gguf")).model(), {1, 2, 3}).size(), 69u);
}

TEST(GgufExport, NamesTheSwitchThatTheFormatLacks) {
  const auto refusal = [](const char* family, const char* keys) {
    return error_of([&] { gguf_architecture(make_config({"x", family, keys})); });
  };
  EXPECT_NE(refusal("nanochat", "{}").find("its embd_norm is not"), std::string::npos);
  EXPECT_NE(refusal("openai-gpt", "{}").find("its norm_position is not"), std::string::npos);
  EXPECT_NE(refusal("gpt2", R"({"act": "gelu"})").find("its act is not"), std::string::npos);
  EXPECT_NE(refusal("gpt2", R"({"n_kv_head": 2})").find("its n_kv_head is not"), std::string::npos);
  EXPECT_NE(refusal("llama", R"({"rope_sign": -1})").find("its rope_sign is not"), std::string::npos);
  EXPECT_NE(refusal("llama", R"({"sliding_window": 4})").find("its sliding_window is not"),
            std::string::npos);
  EXPECT_EQ(refusal("llama", R"({"sliding_window": 12})"), "no error");
}

TEST(GgufExport, TheTokenizerTravelsInTheFile) {
  const auto tokenizer = load_tokenizer(GPT_SOURCE_DIR "/tests/data/bpe.tokenizer.json");
  const int64_t vocab = tokenizer->vocab_size() + 5;  // more rows than tokens
  const RandomModel random(make_config({"t", "gpt2", fmt::format(R"({{"vocab_size": {}}})", vocab)}),
                           DType::f32);
  TempDir dir;
  write_gguf(dir.file("m.gguf"), random.model, random.model.weights, tokenizer.get(),
             {.name = "a name", .chat_template = "{{ messages }}"});
  const GgufFile file(dir.file("m.gguf"));
  EXPECT_EQ(file.need_string("general.name"), "a name");
  EXPECT_EQ(gguf_chat_template(file), "{{ messages }}");
  EXPECT_EQ(std::ssize(*file.strings("tokenizer.ggml.tokens")), vocab);
  const auto data = gguf_vocab(file);
  ASSERT_TRUE(data.has_value());
  const auto again = tokenizer_of(*data, "m.gguf");
  for (const char* text : {"hello world", "The cat sat.  On\n\nmats!", "naïve 123 €"})
    EXPECT_EQ(again->encode(text), tokenizer->encode(text));
}

TEST(GgufExport, SoDoesWhatSentencePieceDoesWithBlanks) {
  const std::string source = GPT_SOURCE_DIR "/tests/data/spm.model";
  for (const bool collapse : {false, true}) {
    VocabData data = load_tokenizer(source)->vocab_data();
    data.remove_extra_whitespaces = collapse;
    const auto tokenizer = tokenizer_of(data, source);
    const RandomModel random(
        make_config({"t", "llama", fmt::format(R"({{"vocab_size": {}}})", tokenizer->vocab_size())}),
        DType::f32);
    TempDir dir;
    write_gguf(dir.file("m.gguf"), random.model, random.model.weights, tokenizer.get(), {});
    const auto again = gguf_tokenizer(dir.file("m.gguf"));
    for (const char* text : {"two  blanks", " in front", "   "})
      EXPECT_EQ(again->encode(text), tokenizer->encode(text)) << text;
    EXPECT_EQ(tokenizer->encode("a  b") == tokenizer->encode("a b"), collapse);
  }
}

}  // namespace
}  // namespace gpt::test

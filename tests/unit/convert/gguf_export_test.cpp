#include "convert/gguf_export.h"

#include "convert/format_limits.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "convert/gguf_vocab.h"
#include "io/gguf.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "support/backend.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

std::vector<float> logits_of(const Model& model, const std::vector<int32_t>& ids) {
  ThreadPool pool(1);
  Inference inference(model, backend(pool, best_isa()), {});
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

// Returns a model config whose row sizes are multiples of the block size of every quantized type.
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
    const std::string error =
        error_of([&] { write_gguf(path, random.model, random.model.weights, nullptr, {}); });
    if (error != "no error") {
      EXPECT_TRUE(test::names(error, {"GGUF"}));
      continue;
    }
    ++written;
    const LoadedModel loaded(path, DType::f32, MatrixOrder::rows, {}, device());
    EXPECT_TRUE(is_shadow() || loaded.copied_bytes() == 0) << small.name;
    ModelConfig c = loaded.model().config;
    if (c.position == Position::rope) {
      EXPECT_EQ(c.rope_layout, gguf_family(random.model.config).gguf.rope_layout);
      c.rope_layout = random.model.config.rope_layout;
    }
    EXPECT_EQ(c.rope_scaling, random.model.config.rope_scaling) << small.name;
    const std::vector<int32_t> ids = random_ids(10, c.vocab_size, 3);
    // The dot products of queries and keys are summed in a different order.
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
    for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl,
                              DType::q4_k, DType::q5_k, DType::q6_k}) {
      TempDir dir;
      const std::string path = dir.file("m.gguf");
      write_gguf(path, random.model, random.model.weights, nullptr, {.dtype = dtype});
      for (const GgufParamType& type : gguf_types(random.model, {.dtype = dtype}))
        EXPECT_EQ(type.used, type.wanted);
      const LoadedModel loaded(path, DType::f32, MatrixOrder::rows, {}, device());
      EXPECT_TRUE(is_shadow() || loaded.copied_bytes() == 0);
      const Model& m = loaded.model();
      EXPECT_EQ(m.weights[static_cast<size_t>(m.table.find(Role::q_weight, 0))].dtype, dtype);
      EXPECT_EQ(m.weights[static_cast<size_t>(m.table.find(Role::norm1_gain, 0))].dtype, DType::f32);
      // With 4 bits, each product has an error of about a tenth of the standard deviation.
      const double bound = dtype == DType::q8_0 || dtype == DType::q6_k ? 0.1 : 0.5;
      EXPECT_LT(largest_difference(logits_of(m, ids), exact), bound * range)
          << small.name << dtype_name(dtype);

      // Writing the loaded model again gives the same file. Copies for training are dequantized.
      write_gguf(dir.file("again.gguf"), m, m.weights, nullptr, {.dtype = dtype});
      EXPECT_EQ(read_file(dir.file("again.gguf")), read_file(path)) << small.name << dtype_name(dtype);
      write_model(dir.path(), m, m.weights);
      const LoadedModel floats(dir.path());
      const ParamBuffer copy(m.table, DType::f32, "copy", device());
      loaded.copy_to(copy);
      const LoadedModel numbers(path, DType::f64);
      for (int id = 0; id < m.table.count(); ++id)
        EXPECT_EQ(get(copy[id], 0, 5), get(floats.model().weights[static_cast<size_t>(id)], 0, 5));
      for (int id = 0; id < m.table.count(); ++id)
        EXPECT_EQ(get(copy[id], 0, 5), numbers.model().weights[static_cast<size_t>(id)].as<double>()[5]);
    }
  }
}

TEST(GgufExport, ReportsRowsThatAreNotWholeBlocks) {
  const RandomModel random(
      make_config({"odd", "llama", R"({"n_embd": 64, "d_ff": 40, "tie_embeddings": true})"}), DType::f32);
  TempDir dir;
  const GgufExportOptions options{.dtype = DType::q4_k};
  write_gguf(dir.file("m.gguf"), random.model, random.model.weights, nullptr, options);
  const std::vector<GgufParamType> types = gguf_types(random.model, options);
  const auto used = [&](Role role, int64_t layer) {
    return types[static_cast<size_t>(random.model.table.find(role, layer))].used;
  };
  EXPECT_EQ(used(Role::wte, -1), DType::q8_0);  // q6_k is requested, because this is also the head matrix
  EXPECT_EQ(used(Role::q_weight, 0), DType::q5_0);
  EXPECT_EQ(used(Role::down_proj_weight, 1), DType::f16);
  EXPECT_EQ(logits_of(LoadedModel(dir.file("m.gguf"), DType::f32, MatrixOrder::rows, {}, device()).model(),
                      {1, 2, 3})
                .size(),
            69u);
}

TEST(GgufExport, TheArchitectureIsTheOneWithTheSameBiases) {
  const auto architecture = [](const char* family, const char* keys) {
    return std::string(gguf_family(make_config({"x", family, keys})).gguf.architecture);
  };
  EXPECT_EQ(architecture("qwen2", "{}"), "qwen2");
  EXPECT_EQ(architecture("qwen2", R"({"rope_layout": "interleaved"})"), "llama");
  EXPECT_EQ(architecture("llama", "{}"), "llama");
  EXPECT_EQ(architecture("llama", R"({"qkv_bias": true, "out_bias": true})"), "llama");
  EXPECT_EQ(architecture("gpt2", R"({"qkv_bias": false})"), "gpt2");
}

TEST(GgufExport, NamesTheSwitchThatTheFormatLacks) {
  const auto refusal = [](const char* family, const char* keys) {
    return error_of([&] { gguf_family(make_config({"x", family, keys})); });
  };
  const auto expect = [&](const char* family, const char* keys, std::initializer_list<test::Fact> facts) {
    EXPECT_TRUE(test::names(refusal(family, keys), facts));
  };
  expect("nanochat", "{}", {"GGUF", "act", "llama", "swiglu", "relu2"});
  expect("openai-gpt", "{}", {"norm_position", "gpt2", "pre", "post"});
  expect("gpt2", R"({"act": "gelu"})", {"act", "gpt2", "gelu_tanh", "gelu", "--act gelu_tanh"});
  expect("gpt2", R"({"n_kv_head": 2})", {"n_kv_head", "gpt2", 4, 2});
  expect("llama", R"({"rope_sign": -1})", {"rope_sign", "llama", 1, -1});
  expect("llama", R"({"sliding_window": 4})", {"sliding_window", "llama", 0, 4});
  EXPECT_EQ(refusal("llama", R"({"sliding_window": 12})"), "no error");
  expect("llama", R"({"rope_dtype": "bf16"})", {"rope_dtype", "llama", "fp32", "bf16"});
  expect("gpt2", R"({"n_layer": 0})", {"n_layer", "gpt2", 1, 0});
}

TEST(FormatLimits, AreSaidInOneLineBeforeTraining) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(export_limits(make_config({"x", "gpt2", R"({"d_ff": 64})"}), bytes.get()), "");
  const std::string act =
      export_limits(make_config({"x", "gpt2", R"({"act": "gelu", "d_ff": 64})"}), bytes.get());
  EXPECT_TRUE(test::names(act, {"transformers", "GGUF", "llm.c", "`act`", "gelu_tanh"}));
  EXPECT_EQ(act.find('\n'), act.size() - 1);
  const auto words = make_char_tokenizer("some text");
  const std::string eps = export_limits(make_config({"x", "llama", R"({"norm_eps": 1e-6})"}), words.get());
  EXPECT_TRUE(test::names(eps, {"transformers", "llama2.c", "`norm_eps`", "1e-05"}));
  EXPECT_FALSE(test::names(eps, {"GGUF"}) || test::names(eps, {"llm.c"}));
  EXPECT_EQ(eps.find('\n'), eps.size() - 1);
}

// A byte tokenizer is stored as a byte-level BPE without merges. A character tokenizer is stored as a
// vocabulary from which the longest matching token is used.
TEST(GgufExport, BytesAndCharactersTravelToo) {
  std::string all;
  for (int b = 0; b < 256; ++b)
    all += static_cast<char>(b);
  const std::string chars("a b\n\t\\\0x\x7f é漢😀", 19);
  const std::pair<std::unique_ptr<Tokenizer>, std::string> cases[] = {
      {make_byte_tokenizer(), all},
      {make_byte_tokenizer(), "Hello, world\n"},
      {make_char_tokenizer(chars), chars}};
  for (const auto& [tokenizer, text] : cases) {
    for (const int64_t more : {0, 3}) {
      const int64_t vocab = tokenizer->vocab_size() + more;
      const RandomModel random(make_config({"t", "gpt2", fmt::format(R"({{"vocab_size": {}}})", vocab)}),
                               DType::f32);
      TempDir dir;
      write_gguf(dir.file("m.gguf"), random.model, random.model.weights, tokenizer.get(), {});
      const auto again = gguf_tokenizer(dir.file("m.gguf"));
      EXPECT_EQ(again->encode(text), tokenizer->encode(text));
      EXPECT_EQ(again->decode(tokenizer->encode(text)), text);
      EXPECT_TRUE(GgufFile(dir.file("m.gguf")).strings("tokenizer.ggml.merges") ||
                  tokenizer->kind() == "char");
    }
  }
  VocabData words{.model = "rwkv", .tokens = {"a", "ab"}, .types = {1, 1}};
  EXPECT_TRUE(test::names(error_of([&] { tokenizer_of(words, "m.gguf"); }), {"m.gguf", "rwkv", 1, "ab"}));
}

TEST(GgufExport, NamesAllTokensThatEndATextWithAndWithoutATokenizer) {
  RandomModel random(make_config({"t", "gpt2", R"({"vocab_size": 259})"}), DType::f32);
  random.model.config.bos_token_id = 257;
  const auto bytes = make_byte_tokenizer();
  const std::vector<int64_t> all = {256, 258, 7, 3, 9};
  for (const Tokenizer* tokenizer : {bytes.get(), static_cast<Tokenizer*>(nullptr)}) {
    for (size_t n = 0; n <= all.size(); ++n) {
      const std::vector<int64_t> ends(all.begin(), all.begin() + static_cast<int64_t>(n));
      random.model.config.eos_token_ids = ends;
      TempDir dir;
      write_gguf(dir.file("m.gguf"), random.model, random.model.weights, tokenizer, {});
      const GgufFile file(dir.file("m.gguf"));
      const std::vector<std::string> keys = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                             "tokenizer.ggml.eom_token_id"};
      for (size_t i = 0; i < std::min(n, keys.size()); ++i)
        EXPECT_EQ(file.integer(keys[i]), ends[i]) << keys[i];
      const LoadedModel loaded(dir.file("m.gguf"));
      EXPECT_EQ(loaded.model().config.eos_token_ids, ends);
      EXPECT_EQ(loaded.model().config.bos_token_id, 257);
    }
  }
}

TEST(GgufExport, TheTokenizerTravelsInTheFile) {
  const auto tokenizer = load_tokenizer(GPT_SOURCE_DIR "/tests/data/bpe.tokenizer.json");
  const int64_t vocab = tokenizer->vocab_size() + 5;  // more rows than tokens
  const RandomModel random(make_config({"t", "gpt2", fmt::format(R"({{"vocab_size": {}}})", vocab)}),
                           DType::f32);
  TempDir dir;
  write_gguf(
      dir.file("m.gguf"), random.model, random.model.weights, tokenizer.get(),
      {.name = "a name", .chat_templates = {{"default", "{{ messages }}"}, {"tool_use", "{{ tools }}"}}});
  const GgufFile file(dir.file("m.gguf"));
  EXPECT_EQ(file.need_string("general.name"), "a name");
  EXPECT_EQ(gguf_chat_templates(file),
            (ChatTemplates{{"default", "{{ messages }}"}, {"tool_use", "{{ tools }}"}}));
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

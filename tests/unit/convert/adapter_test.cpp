// Tests that adapters from PEFT give the same logits and gradients as in PEFT. Also tests merged adapters,
// and adapters that are written and read again in both formats. scripts/golden/make_adapters.py writes
// tests/data/adapters.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "convert/adapter_files.h"
#include "io/safetensors.h"
#include "kernels/quant.h"
#include "model/inference.h"
#include "model/training_graph.h"
#include "support/arrays.h"
#include "support/backend.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"
#include "tensor/convert.h"

namespace gpt::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string data(const std::string& name) {
  return GPT_SOURCE_DIR "/tests/data/adapters/" + name;
}

std::vector<double> numbers(const SafetensorsFile& file, const char* name) {
  const TensorInfo& t = *file.find(name);
  const auto n = checked_size(t.shape, name);
  std::vector<double> x(static_cast<size_t>(n));
  convert_matrix({.bytes = t.bytes, .dtype = t.dtype, .rows = n, .cols = 1}, make_view(x.data(), {n}));
  return x;
}

struct Golden {
  explicit Golden(const std::string& name) : file(data(name) + "/golden.safetensors") {
    const TensorInfo& t = *file.find("ids");
    batch = t.shape[0];
    tokens = t.shape[1];
    ids.resize(static_cast<size_t>(batch * tokens));
    std::memcpy(ids.data(), t.bytes.data(), t.bytes.size());
  }
  SafetensorsFile file;
  int64_t batch, tokens;
  std::vector<int32_t> ids;
};

// Returns the logits of all sequences, with or without an adapter.
std::vector<float> logits(const Model& model, const Golden& golden, std::shared_ptr<const Adapter> adapter,
                          Isa isa) {
  ThreadPool pool(1);
  Inference inference(model, backend(pool, isa), {.adapter_rank = adapter != nullptr ? adapter->rank : 0});
  std::vector<float> all(golden.ids.size() * static_cast<size_t>(model.config.vocab_size));
  const TensorView view = make_view(all.data(), {golden.batch * golden.tokens, model.config.vocab_size});
  const int number = adapter != nullptr ? inference.add_adapter(std::move(adapter)) : -1;
  for (int64_t b = 0; b < golden.batch; ++b) {
    inference.reset(0, number);
    inference.append_all(
        0,
        std::span(golden.ids)
            .subspan(static_cast<size_t>(b * golden.tokens), static_cast<size_t>(golden.tokens)),
        view.slice_rows(b * golden.tokens, golden.tokens));
  }
  return all;
}

template <class A, class B>
double largest_difference(const std::vector<A>& a, const std::vector<B>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

constexpr double kTolerance = 2e-5;  // logits up to 20, sums of 40 in a different order, two layers

class PeftAdapter : public testing::TestWithParam<const char*> {
 protected:
  PeftAdapter()
      : golden(GetParam()),
        base(data(GetParam()) + std::string("/base"), DType::f32, MatrixOrder::rows, {}, device()) {}
  std::string folder() const { return data(GetParam()) + std::string("/adapter"); }
  Golden golden;
  LoadedModel base;
};

TEST_P(PeftAdapter, GivesItsLogits) {
  const LoadedAdapter loaded = load_adapter(folder(), base.model(), device());
  EXPECT_EQ(loaded.base, "base");
  const std::vector<double> want = numbers(golden.file, "logits"), plain = numbers(golden.file, "base");
  EXPECT_GT(largest_difference(want, plain), 0.01);
  for (const Isa isa : available_isas()) {
    EXPECT_LT(largest_difference(logits(base.model(), golden, loaded.adapter, isa), want), kTolerance);
    EXPECT_LT(largest_difference(logits(base.model(), golden, nullptr, isa), plain), kTolerance);
  }
}

TEST_P(PeftAdapter, MergedGivesItsLogits) {
  if (GetParam() == std::string("tied_head")) GTEST_SKIP() << "the head shares its matrix with the embedding";
  const LoadedAdapter loaded = load_adapter(folder(), base.model(), device());
  base.merge(*loaded.adapter);
  EXPECT_LT(
      largest_difference(logits(base.model(), golden, nullptr, best_isa()), numbers(golden.file, "logits")),
      kTolerance);
}

TEST_P(PeftAdapter, IsTheSameInEitherFormat) {
  const TempDir dir;
  const LoadedAdapter loaded = load_adapter(folder(), base.model(), device());
  const auto same = [&](const std::string& path) {
    const LoadedAdapter again = load_adapter(path, base.model(), device());
    EXPECT_EQ(again.adapter->products.size(), loaded.adapter->products.size());
    for (const LowRank& p : loaded.adapter->products) {
      const LowRank* other = again.adapter->find(p.first);
      ASSERT_NE(other, nullptr);
      EXPECT_EQ(other->last, p.last);
      EXPECT_EQ(other->rank, p.rank);
      EXPECT_TRUE(same_bytes(again.adapter->a(*other), loaded.adapter->a(p)));
      for (int64_t r = 0; r < loaded.adapter->b(p).rows(); ++r)
        EXPECT_NEAR(other->scale * get(again.adapter->b(*other), r, 0),
                    p.scale * get(loaded.adapter->b(p), r, 0), 1e-6);
    }
  };
  fs::create_directory(dir.file("peft"));
  write_adapter(dir.file("peft"), base.model(), *loaded.adapter, loaded.settings, "base");
  same(dir.file("peft"));
  EXPECT_TRUE(is_adapter(dir.file("peft")));
  if (GetParam() == std::string("tied_head")) return;
  write_adapter_gguf(dir.file("a.gguf"), base.model(), *loaded.adapter, "a");
  same(dir.file("a.gguf"));
  EXPECT_TRUE(is_adapter(dir.file("a.gguf")));
  EXPECT_FALSE(is_adapter(data(GetParam()) + std::string("/base")));
  const LoadedAdapter from_gguf = load_adapter(dir.file("a.gguf"), base.model());
  fs::create_directory(dir.file("back"));
  write_adapter(dir.file("back"), base.model(), *from_gguf.adapter, from_gguf.settings, "");
  same(dir.file("back"));
  EXPECT_EQ(adapter_facts(dir.file("a.gguf")).parameters, adapter_facts(folder()).parameters);
}

INSTANTIATE_TEST_SUITE_P(All, PeftAdapter,
                         testing::Values("gpt2", "llama", "rslora", "patterns", "layers", "regex", "exclude",
                                         "layers_pattern", "head", "tied_head"));

TEST(HeadAdapter, OfATiedModelIsForTheHeadAlone) {
  const TempDir dir;
  LoadedModel base(data("tied_head/base"));
  const LoadedAdapter loaded = load_adapter(data("tied_head/adapter"), base.model());
  const auto refuses = [&](auto&& action) { EXPECT_TRUE(test::names(error_of(action), {"lm_head"})); };
  refuses([&] { write_adapter_gguf(dir.file("a.gguf"), base.model(), *loaded.adapter, "a"); });
  refuses([&] { base.merge(*loaded.adapter); });
}

// PEFT saves the head matrix together with an adapter for it. If that matrix belonged to a different model,
// it would replace the head of the base model.
TEST(HeadAdapter, TheMatrixSavedWithItMustBeThatOfTheBase) {
  const TempDir dir;
  fs::copy(data("head/adapter"), dir.path(), fs::copy_options::recursive);
  const LoadedModel base(data("head/base"));
  EXPECT_EQ(error_of([&] { load_adapter(dir.path(), base.model()); }), "no error");
  std::string bytes = read_file(dir.file(kAdapterTensors));
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const json tensors = json::parse(bytes.substr(sizeof header, header));
  const std::string name = "base_model.model.lm_head.base_layer.weight";
  const uint64_t at = sizeof header + header + tensors[name]["data_offsets"][0].get<uint64_t>();
  bytes[at + 3] = static_cast<char>(bytes[at + 3] ^ 1);  // in the exponent
  write_file_atomic(dir.file(kAdapterTensors), bytes);
  EXPECT_TRUE(test::names(error_of([&] { load_adapter(dir.path(), base.model()); }), {name}));
}

// The chunked loss has its own code for the low-rank product of the head.
TEST(HeadAdapter, ChangesTheLossToo) {
  for (const char* name : {"head", "tied_head"}) {
    const Golden golden(name);
    const LoadedModel base(data(name + std::string("/base")), DType::f32, MatrixOrder::rows, {}, device());
    const auto adapter = load_adapter(data(name + std::string("/adapter")), base.model(), device()).adapter;
    const std::vector<double> all = numbers(golden.file, "logits");
    const auto vocab = static_cast<size_t>(base.model().config.vocab_size);
    double want = 0;
    for (size_t row = 0; row < golden.ids.size(); ++row) {
      double sum = 0;
      for (size_t i = 0; i < vocab; ++i)
        sum += std::exp(all[row * vocab + i]);
      want += std::log(sum) - all[row * vocab + static_cast<size_t>(golden.ids[row])];
    }
    ThreadPool pool(1);
    TrainingGraph graph(base.model(), golden.batch, golden.tokens,
                        {.gradients = false, .adapter = adapter.get()}, backend(pool, best_isa()));
    EXPECT_NEAR(graph.loss({.ids = golden.ids.data(), .targets = golden.ids.data()}), want, 1e-4 * want)
        << name;
  }
}

TEST(Adapters, AddUp) {
  const Golden golden("llama");
  const LoadedModel base(data("llama/base"), DType::f32, MatrixOrder::rows, {}, device());
  const auto one = load_adapter(data("llama/adapter"), base.model(), device()).adapter;
  const WeightedAdapter half{one, 0.5};
  const std::vector<WeightedAdapter> halves = {half, half};
  const auto sum = sum_of_adapters(base.model().table, halves, device());
  EXPECT_EQ(sum->rank, 2 * one->rank);
  EXPECT_LT(largest_difference(logits(base.model(), golden, sum, Isa::ref),
                               logits(base.model(), golden, one, Isa::ref)),
            kTolerance);
}

// ---------------------------------------------------------------------------------------------------
// Gradients with stored dtypes.

void copy_numbers(const TensorView& from, const TensorView& to) {
  if (is_quantized(from.dtype)) {
    for (int64_t r = 0; r < from.rows(); ++r)
      dequantize_row(from.dtype, from.slice_rows(r, 1).data, from.cols(), to.row<float>(r));
    return;
  }
  const bool matrix = from.rank == 2;
  convert_matrix(
      {.bytes = {from.as<const std::byte>(), static_cast<size_t>(from.size()) * dtype_size(from.dtype)},
       .dtype = from.dtype,
       .rows = matrix ? from.rows() : from.size(),
       .cols = matrix ? from.cols() : 1},
      to);
}

// Converts the vectors and lookup tables of the base model to `dtype`. Matrices keep their stored dtype, or
// are dequantized to fp32 if `numbers` is true.
struct StoredBase {
  StoredBase(const LoadedModel& loaded, DType dtype, bool numbers) : model(loaded.model().config) {
    for (int id = 0; id < model.table.count(); ++id) {
      const TensorView& from = loaded.model().weights[static_cast<size_t>(id)];
      const bool is_matrix = model.table[id].layer >= 0 && from.rank == 2;
      model.weights.push_back(from);
      const DType wanted = is_matrix ? (numbers ? DType::f32 : from.dtype) : dtype;
      if (from.dtype == wanted) continue;
      copies.emplace_back(static_cast<size_t>(from.size()) * dtype_size(wanted), "test weights");
      model.weights.back() = copies.back().view(0, wanted, from.dims());
      copy_numbers(from, model.weights.back());
    }
  }
  Model model;
  std::deque<Buffer> copies;
};

// An adapter on a StoredBase. The constructor computes its gradients once.
struct Learning {
  // If `numbers` is true, the base model has dequantized weights instead of quantization blocks.
  Learning(DType dtype, Isa isa, bool numbers)
      : golden("blocks"),
        loaded(data("blocks/base.gguf"), numbers ? std::optional(DType::f32) : std::nullopt),
        base(loaded, wide(dtype), numbers),
        from(load_adapter(data("blocks/adapter"), base.model)),
        m(base.model, base.model.config, make_adapter(base.model.config, base.model.table, from.settings), {},
          nullptr, wide(dtype)),
        grads(m.model.table, wide(dtype), "test gradients") {
    for (size_t i = 0; i < m.adapter.weights.size(); ++i)
      copy_numbers(from.adapter->weights[i], m.adapter.weights[i]);
    ThreadPool pool(2);
    TrainingGraph graph(m.model, golden.batch, golden.tokens,
                        {.dtype = dtype, .adapter = &m.adapter, .packs_per_use = true}, backend(pool, isa));
    std::vector<int32_t> targets = golden.ids;
    for (size_t i = 0; i < targets.size(); ++i)
      targets[i] = (static_cast<int64_t>(i) + 1) % golden.tokens == 0 ? -1 : golden.ids[i + 1];
    StepState step{.loss_weight = 1.0 / static_cast<double>(golden.batch * (golden.tokens - 1))};
    graph.forward_backward({.ids = golden.ids.data(), .targets = targets.data()}, grads, false,
                           test::array_of(step));
    loss = step.loss * step.loss_weight;
  }
  static DType wide(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

  // Returns the largest difference from PyTorch's gradients, relative to the largest element of each matrix.
  double error() const {
    const LoadedAdapter want = load_adapter(data("blocks/gradients"), base.model);
    double worst = 0;
    for (size_t i = 0; i < want.adapter->weights.size(); ++i) {
      const TensorView got = grads[m.first_adapter_id() + static_cast<int>(i)],
                       &expected = want.adapter->weights[i];
      double error = 0, size = 0;
      for (int64_t r = 0; r < got.rows(); ++r) {
        for (int64_t c = 0; c < got.cols(); ++c) {
          error = std::max(error, std::abs(get(got, r, c) - get(expected, r, c)));
          size = std::max(size, std::abs(get(expected, r, c)));
        }
      }
      worst = std::max(worst, error / size);
    }
    return worst;
  }

  Golden golden;
  LoadedModel loaded;
  StoredBase base;
  LoadedAdapter from;
  AdaptedModel m;
  ParamBuffer grads;
  double loss = 0;
};

TEST(AdapterOnStoredTypes, HasPyTorchsGradients) {
  const Learning exact(DType::f64, Isa::ref, false);
  const double loss = numbers(exact.golden.file, "loss")[0];
  EXPECT_LT(exact.error(), 1e-6);
  EXPECT_NEAR(exact.loss, loss, 1e-10);
  for (const Isa isa : available_isas()) {
    const Learning learning(DType::f32, isa, false);
    EXPECT_LT(learning.error(), 1e-4) << isa_name(isa);
    EXPECT_NEAR(learning.loss, loss, 1e-5);
  }
}

TEST(AdapterOnStoredTypes, BlocksAreTheNumbersThatTheyStandFor) {
  for (const Isa isa : available_isas()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      if (isa == Isa::ref && dtype == DType::f32)
        continue;  // the reference sums unpacked matrices element by element
      const Learning blocks(dtype, isa, false), plain(dtype, isa, true);
      EXPECT_TRUE(same_bytes(blocks.grads.all(), plain.grads.all()))
          << isa_name(isa) << " " << dtype_name(dtype);
      EXPECT_EQ(blocks.loss, plain.loss);
    }
  }
}

// ---------------------------------------------------------------------------------------------------
// Invalid adapter files.

class BrokenAdapter : public testing::Test {
 protected:
  BrokenAdapter() : base(data("llama/base")) {
    fs::copy(data("llama/adapter"), dir.path(), fs::copy_options::recursive);
    config = read_json_file(dir.file(kAdapterConfig));
  }
  // Returns the error of loading the adapter after a config key was changed to a value.
  std::string with(const char* key, const json& value) {
    json changed = config;
    changed[key] = value;
    write_file_atomic(dir.file(kAdapterConfig), changed.dump());
    return error_of([&] { load_adapter(dir.path(), base.model()); });
  }
  TempDir dir;
  LoadedModel base;
  json config;
};

TEST_F(BrokenAdapter, KeysThatChangeResultsAreRefused) {
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, json>>{{"use_dora", true},
                                                 {"modules_to_save", {"lm_head"}},
                                                 {"bias", "all"},
                                                 {"lora_bias", true},
                                                 {"init_lora_weights", "pissa"},
                                                 {"layer_replication", {{0, 1}}},
                                                 {"trainable_token_indices", {1}},
                                                 {"target_parameters", {"x"}},
                                                 {"use_qalora", true},
                                                 {"alora_invocation_tokens", {1}},
                                                 {"a_key_of_tomorrow", 3},
                                                 {"peft_type", "IA3"},
                                                 {"r", 0},
                                                 {"r", "four"},
                                                 {"lora_alpha", "x"},
                                                 {"lora_alpha", nullptr},
                                                 {"lora_dropout", 1},
                                                 {"rank_pattern", {{"q_(?P<a>)", 2}}},
                                                 {"alpha_pattern", {{"q_(?P<a>)", 2}}},
                                                 {"exclude_modules", {"q_proj"}},
                                                 {"exclude_modules", ".*q_proj"},
                                                 {"exclude_modules", "*"},
                                                 {"ensure_weight_tying", true},
                                                 {"layers_to_transform", {0}},
                                                 {"target_modules", {"q_proj"}}}) {
    EXPECT_TRUE(test::names(with(key, value), {dir.file(kAdapterConfig), key}));
  }
  EXPECT_EQ(with("revision", "main"), "no error");
  EXPECT_EQ(with("use_dora", false), "no error");
}

TEST_F(BrokenAdapter, ThePatternOfARankMustBeThatOfTheTensors) {
  for (const char* pattern : {"q_proj", "q_.*", "self_attn\\.(q|k)_proj", "^model.layers.0.*"})
    EXPECT_TRUE(test::names(with("rank_pattern", {{pattern, 2}}), {kAdapterConfig, 4, 2})) << pattern;
  for (const char* pattern : {"q", "q_pro", "attn\\.q_proj", "layers.0"})
    EXPECT_EQ(with("rank_pattern", {{pattern, 2}}), "no error") << pattern;
}

TEST_F(BrokenAdapter, OfAnotherModel) {
  const LoadedModel gpt2(data("gpt2/base"));
  EXPECT_TRUE(test::names(error_of([&] { load_adapter(dir.path(), gpt2.model()); }),
                          {"model.layers.0.self_attn.k_proj", "transformer.h.0.attn.c_attn"}));
  ModelConfig deeper = base.model().config;
  const std::string layer = "layers." + std::to_string(deeper.n_layer++) + ".";
  EXPECT_TRUE(test::refused([&] { load_adapter(dir.path(), Model(deeper)); }, dir.file(kAdapterConfig),
                            {layer, "target_modules"}));
  const LoadedModel wider(data("blocks/base.gguf"), std::nullopt);
  EXPECT_TRUE(test::names(error_of([&] { load_adapter(dir.path(), wider.model()); }), {256}));
  EXPECT_TRUE(test::refused([&] { load_adapter(data("blocks/base.gguf"), wider.model()); },
                            data("blocks/base.gguf"), {"general.type", "adapter"}));
  EXPECT_TRUE(
      test::names(error_of([&] { load_adapter(dir.file("none"), wider.model()); }), {dir.file("none")}));
}

TEST(AdapterSettings, NamesOfMatrices) {
  const LoadedModel base(data("gpt2/base"));
  const Model& m = base.model();
  const auto products = [&](std::vector<std::string> targets) {
    AdapterSettings settings;
    settings.rank = 2;
    settings.targets = std::move(targets);
    return make_adapter(m.config, m.table, settings).products.size();
  };
  EXPECT_EQ(products({"all-linear"}), 8u);
  EXPECT_EQ(products({"c_attn"}), 2u);
  EXPECT_EQ(products({"c_proj"}), 4u);
  EXPECT_EQ(products({"mlp.c_proj"}), 2u);
  EXPECT_EQ(products({"transformer.h.1.attn.c_attn"}), 1u);
  EXPECT_EQ(products({"attn.q", "attn.k", "attn.v"}), 2u);
  EXPECT_EQ(products({"mlp.fc", "attn.out"}), 4u);
  EXPECT_TRUE(test::names(error_of([&] { products({"attn.q"}); }), {"attn.q", "attn.c_attn"}));
  EXPECT_TRUE(test::names(error_of([&] { products({"q_proj"}); }), {"q_proj", "attn.c_attn"}));
  EXPECT_TRUE(test::names(error_of([&] { products({"wte"}); }), {"wte"}));
}

}  // namespace
}  // namespace gpt::test

// Tests that models survive a round trip through files: every family and config, and weights with the tensor
// names of every supported program.

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

// Resets the keys that a transformers config.json does not record: initialization and dropout.
ModelConfig without_training_keys(ModelConfig c) {
  const ModelConfig defaults;
  c.init = defaults.init;
  c.init_std = defaults.init_std;
  c.residual_init_scale = defaults.residual_init_scale;
  c.dropout = c.embd_dropout = c.attn_dropout = c.resid_dropout = 0;
  return c;
}

void expect_same_weights(const Model& expected, const Model& found, const std::string& what) {
  ASSERT_EQ(expected.table.count(), found.table.count()) << what;
  for (int id = 0; id < expected.table.count(); ++id) {
    const auto i = static_cast<size_t>(id);
    EXPECT_TRUE(same_bytes(expected.weights[i], found.weights[i])) << what << " " << expected.table[id].name;
  }
}

std::vector<SmallConfig> all_families() {
  std::vector<SmallConfig> all = small_configs();
  all.push_back({"llama_eos", "llama", R"({"n_kv_head": 2})"});
  return all;
}

class Written : public testing::TestWithParam<SmallConfig> {};

TEST_P(Written, ComesBackEqual) {
  ModelConfig c = make_config(GetParam());
  if (GetParam().name == "llama_eos") {
    c.bos_token_id = 1;
    c.eos_token_ids = {2, 5};
  }
  const RandomModel random(c, DType::f32);
  TempDir dir;
  write_model(dir.path(), random.model, random.model.weights);
  const LoadedModel loaded(dir.path());
  expect_same_weights(random.model, loaded.model(), GetParam().name);
  EXPECT_EQ(without_training_keys(loaded.model().config), without_training_keys(c)) << GetParam().name;
  if (&export_family(c) == &family::own) {
    EXPECT_EQ(loaded.model().config, c) << "our own format keeps everything";
  }
  EXPECT_EQ(&loaded.naming(), export_family(c).namings[0]);

  // Writing the loaded model again gives the same bytes.
  TempDir again;
  write_model(again.path(), loaded.model(), loaded.model().weights);
  for (const char* name : {"config.json", "model.safetensors", "generation_config.json"}) {
    EXPECT_EQ(read_file(dir.file(name)), read_file(again.file(name))) << name;
  }

  // A copy for training and an fp64 copy have the same values.
  const ParamBuffer copy(loaded.model().table, DType::f32, "copy");
  loaded.copy_to(copy);
  const LoadedModel wide(dir.path(), DType::f64);
  for (int id = 0; id < loaded.model().table.count(); ++id) {
    EXPECT_TRUE(same_bytes(copy[id], random.weights[id]));
    const TensorView w = wide.model().weights[static_cast<size_t>(id)];
    for (int64_t i = 0; i < w.size(); ++i)
      ASSERT_EQ(w.as<double>()[i], double{copy[id].as<float>()[i]});
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, Written, testing::ValuesIn(all_families()),
                         [](const auto& param) { return test_name(param.param.name); });

TEST(WrittenFamilies, AreThoseOfTransformersWhereTheyCanBe) {
  for (const auto& [name, family] : std::map<std::string, std::string>{{"gpt2", "gpt2"},
                                                                       {"openai-gpt", "gpt.cpp"},
                                                                       {"gpt1-preln", "gpt2"},
                                                                       {"llama", "llama"},
                                                                       {"nanochat", "nanochat"},
                                                                       {"nanochat-notebook", "nanochat"},
                                                                       {"nanochat-doc", "gpt.cpp"},
                                                                       {"mini-gpt", "gpt.cpp"},
                                                                       {"gpt2-scratch", "gpt.cpp"},
                                                                       {"gpt.cpp", "gpt2"}}) {
    EXPECT_EQ(export_family(make_config(small_config(name))).name, family) << name;
  }
  // GPT-1 has no separate key for the MLP width.
  EXPECT_EQ(export_family(make_config({"gpt1", "openai-gpt", R"({"d_ff": 64})"})).name, "openai-gpt");
  // No file format supports layers that differ.
  EXPECT_THROW(export_family(make_config({"toy", "llama", R"({"n_layer": 4, "n_kv_head": 2})", toy_layers})),
               Error);
  // transformers computes its RoPE tables in fp32.
  EXPECT_EQ(export_family(make_config(small_config("nanochat_bf16_rope"))).name, "gpt.cpp");
}

// ---------------------------------------------------------------------------------------------------
// Tensor names of the PyTorch modules of the five supported projects.

TEST(ModelFiles, OnlyMasksAreBuffers) {
  EXPECT_TRUE(is_buffer_name("transformer.h.0.attn.bias"));
  EXPECT_TRUE(is_buffer_name("h.0.attn.masked_bias"));
  EXPECT_FALSE(is_buffer_name("transformer.h.0.attn.c_attn.bias"));
}

struct Foreign {
  const char* model_type;
  std::vector<std::string> buffers;  // other entries of their state_dicts
  const char* tied_head;             // the alias in a tied state_dict
};

const Foreign kForeign[] = {
    {"gpt2-scratch", {"trf_blocks.0.att.mask", "trf_blocks.1.att.mask"}, nullptr},
    {"gpt1-preln", {"blocks.0.attn.mask", "blocks.1.attn.mask"}, "lm_head.weight"},
    {"mini-gpt", {"blocks.0.attn.mask"}, "output_proj.weight"},
    {"nanochat-notebook", {}, nullptr},
    {"nanochat-doc", {"cos", "sin"}, nullptr},
    {"gpt2", {"transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"}, "lm_head.weight"},
    {"openai-gpt", {"transformer.h.0.attn.bias"}, "lm_head.weight"},
};

// Returns the tensors of a model under the names of another program, fused and transposed like in that
// program.
std::vector<NamedTensor> foreign_tensors(const Model& model, const Naming& naming, bool strip_prefix,
                                         std::deque<std::vector<float>>& memory) {
  std::map<std::string, std::pair<Shape, std::vector<float>>> tensors;
  for (int id = 0; id < model.table.count(); ++id) {
    const FilePlace place = file_place(naming, model.config, model.table[id]);
    auto& [shape, values] = tensors[place.tensor];
    shape = place.file_shape;
    values.resize(static_cast<size_t>(checked_size(shape, place.tensor)));
    const TensorView& w = model.weights[static_cast<size_t>(id)];
    const std::vector<float> numbers = floats(w);
    const bool matrix = w.rank == 2;
    const int64_t rows = matrix ? w.rows() : w.size(), cols = matrix ? w.cols() : 1;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t row = place.first_row + r;
        values[static_cast<size_t>(place.transposed ? c * shape[1] + row : row * cols + c)] =
            numbers[static_cast<size_t>(r * cols + c)];
      }
    }
  }
  std::vector<NamedTensor> list;
  for (auto& [name, tensor] : tensors) {
    memory.push_back(std::move(tensor.second));
    const bool strip = strip_prefix && name.rfind("transformer.", 0) == 0;
    list.push_back(named_tensor(strip ? name.substr(12) : name,
                                make_view(memory.back().data(), {static_cast<int64_t>(memory.back().size())}),
                                tensor.first));
  }
  return list;
}

void write_config(const TempDir& dir, const Foreign& f, const ModelConfig& c) {
  nlohmann::json config = {{"model_type", f.model_type}, {"vocab_size", c.vocab_size},
                           {"n_positions", c.n_ctx},     {"n_layer", c.n_layer},
                           {"n_head", c.n_head},         {"n_embd", c.n_embd}};
  if (c.d_ff != 4 * c.n_embd) config["d_ff"] = c.d_ff;
  write_plain_file(dir.file("config.json"), config.dump());
}

TEST(ForeignNames, LoadWithBuffersAndTiedHeads) {
  for (const Foreign& f : kForeign) {
    const ModelConfig c = make_config({f.model_type, f.model_type, R"({"d_ff": 64})"});
    const RandomModel random(c, DType::f32);
    const Naming& naming = *find_family(f.model_type)->namings[0];
    for (bool strip : {false, true}) {
      if (strip && find_family(f.model_type)->keys.empty()) continue;
      std::deque<std::vector<float>> memory;
      std::vector<NamedTensor> tensors = foreign_tensors(random.model, naming, strip, memory);
      std::vector<float> buffer(16, 1);
      for (const std::string& name : f.buffers) {
        tensors.push_back(named_tensor(strip ? name.substr(12) : name, make_view(buffer.data(), {4, 4})));
      }
      const TensorView wte = random.weights[random.model.table.find(Role::wte)];
      if (f.tied_head != nullptr) tensors.push_back(named_tensor(f.tied_head, wte));
      TempDir dir;
      write_config(dir, f, c);
      write_safetensors(dir.file("model.safetensors"), tensors);
      const LoadedModel loaded(dir.path());
      EXPECT_EQ(&loaded.naming(), &naming) << f.model_type;
      expect_same_weights(random.model, loaded.model(), f.model_type);

      if (f.tied_head == nullptr) continue;
      // A tensor with the name of the alias but different values is not an alias.
      std::vector<float> other(static_cast<size_t>(wte.size()));
      tensors.back() = named_tensor(f.tied_head, make_view(other.data(), {wte.rows(), wte.cols()}));
      write_safetensors(dir.file("model.safetensors"), tensors);
      EXPECT_THROW(LoadedModel{dir.path()}, Error) << f.model_type;
    }
  }
}

TEST(ForeignNames, MissingExtraAndMisshapenTensorsAreNamed) {
  const Foreign& f = kForeign[0];
  const ModelConfig c = make_config({f.model_type, f.model_type, R"({"d_ff": 64})"});
  const RandomModel random(c, DType::f32);
  std::deque<std::vector<float>> memory;
  const std::vector<NamedTensor> tensors =
      foreign_tensors(random.model, *find_family(f.model_type)->namings[0], false, memory);
  const auto message = [&](const std::vector<NamedTensor>& changed) -> std::string {
    TempDir dir;
    write_config(dir, f, c);
    write_safetensors(dir.file("model.safetensors"), changed);
    try {
      const LoadedModel loaded(dir.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(tensors), "no error");
  std::vector<float> small(6);
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<NamedTensor> changed = tensors;
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
    // Without the tensors that identify the family, the error is about the unknown family. The error then
    // names a tensor or file that would identify the family.
    const std::string error = message(changed);
    EXPECT_TRUE(test::names(error, {tensors[i].name}) || test::names(error, {"config.json", "wte.weight"}))
        << tensors[i].name << ": " << error;
    changed = tensors;
    changed[i] = named_tensor(tensors[i].name, make_view(small.data(), {2, 3}));
    EXPECT_TRUE(test::names(message(changed), {tensors[i].name}));
  }
  std::vector<NamedTensor> extra = tensors;
  extra.push_back(named_tensor("surprise.weight", make_view(small.data(), {2, 3})));
  EXPECT_TRUE(test::names(message(extra), {"surprise.weight"}));
}

// A llama2.c checkpoint corresponds to a Llama with interleaved RoPE.
TEST(Llama2c, LoadsAndComputesTheSame) {
  for (bool tied : {true, false}) {
    const ModelConfig c = make_config({"llama2c", "llama",
                                       fmt::format(R"({{"n_kv_head": 2, "norm_eps": 1e-5,
        "rope_layout": "interleaved", "tie_embeddings": {}}})",
                                                   tied)});
    const RandomModel random(c, DType::f32);
    std::string bytes;
    const auto put = [&](const void* data, size_t n) { bytes.append(static_cast<const char*>(data), n); };
    for (int64_t v :
         {c.n_embd, c.d_ff, c.n_layer, c.n_head, c.n_kv_head, tied ? c.vocab_size : -c.vocab_size, c.n_ctx}) {
      const auto number = static_cast<int32_t>(v);
      put(&number, sizeof number);
    }
    const auto put_role = [&](Role role, int64_t layer = -1) {
      const TensorView& w = random.model.weights[static_cast<size_t>(random.model.table.find(role, layer))];
      put(floats(w).data(), static_cast<size_t>(w.size()) * sizeof(float));
    };
    put_role(Role::wte);
    for (Role role :
         {Role::norm1_gain, Role::q_weight, Role::k_weight, Role::v_weight, Role::out_weight,
          Role::norm2_gain, Role::gate_proj_weight, Role::down_proj_weight, Role::up_proj_weight}) {
      for (int64_t layer = 0; layer < c.n_layer; ++layer)
        put_role(role, layer);
    }
    put_role(Role::final_gain);
    const std::vector<float> tables(static_cast<size_t>(c.n_ctx * c.head_dim));
    put(tables.data(), tables.size() * sizeof(float));
    if (!tied) put_role(Role::head_weight);
    TempDir dir;
    write_plain_file(dir.file("model.bin"), bytes);
    const LoadedModel loaded(dir.file("model.bin"));
    expect_same_weights(random.model, loaded.model(), "llama2.c");
    ModelConfig found = without_training_keys(loaded.model().config);
    found.bos_token_id = -1;
    found.eos_token_ids.clear();
    EXPECT_EQ(found, without_training_keys(c));
  }
}

}  // namespace
}  // namespace gpt::test

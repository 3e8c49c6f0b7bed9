// Tests that the predicted packed weights are exactly those in the weight cache after forward and backward
// passes.

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "model/inference.h"
#include "model/training_graph.h"
#include "model/weight_cache.h"
#include "support/backend.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

// Covers tied and untied heads, matrix sizes with and without multiples of quantization blocks of 32, and
// matmuls with several biases.
const SmallConfig kPackedConfigs[] = {
    {"gpt2", "gpt2", "{}"},
    {"gpt2_wide", "gpt2", R"({"n_embd": 32, "d_ff": 96, "vocab_size": 67})"},
    {"gpt2_untied", "gpt2", R"({"tie_embeddings": false, "head_bias": true, "n_embd": 32})"},
    {"llama", "llama", R"({"n_embd": 64, "n_kv_head": 2, "head_dim": 10, "d_ff": 33})"},
    {"llama_tied", "llama", R"({"n_embd": 32, "d_ff": 64, "tie_embeddings": true})"},
    {"qwen2", "qwen2", R"({"n_embd": 32, "n_kv_head": 1, "d_ff": 40})"},
    {"mlp_biases", "llama", R"({"mlp_bias": true, "qkv_bias": true})"},
};
constexpr DType kComputed[] = {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_0};

// The weights of a model as stored in a file: separate memory for each tensor, matrices in a given dtype.
class StoredWeights {
 public:
  StoredWeights(const RandomModel& from, DType dtype) : model(from.model.config) {
    for (int id = 0; id < model.table.count(); ++id) {
      const TensorView& w = from.weights[id];
      const bool fits = w.rank == 2 && w.cols() % block_size(dtype).elements == 0;
      const DType stored = fits ? dtype : DType::f32;
      const int64_t cols = w.rank == 2 ? w.cols() : w.size();
      memory_.emplace_back(static_cast<size_t>(w.size() / cols * row_bytes(stored, cols)), "test weights",
                           device());
      model.weights.push_back(memory_.back().view(0, stored, w.dims()));
      std::memset(MappedView(model.weights.back(), Access::write)->data, 0, memory_.back().size());
    }
  }
  Model model;

 private:
  std::deque<Buffer> memory_;
};

int64_t counted(const Model& model, Isa isa, const PackedUse& use) {
  return packed_bytes(model.table, model.weights, kernel_table(isa), use);
}

int64_t held_after_inference(Model& model, Isa isa, const PackedUse& use) {
  model.packed = std::make_unique<WeightCache>();
  ThreadPool pool(1);
  const InferenceTypes types = inference_types(use.compute);
  Inference inference(
      model, backend(pool, isa),
      {.slots = 1, .dtype = types.activations, .weights = use.compute, .in_place = use.in_place});
  const std::vector<int32_t> ids = random_ids(3, model.config.vocab_size, 1);
  Buffer logits(static_cast<size_t>(3 * model.config.vocab_size) * sizeof(float), "logits", device());
  const int64_t shape[] = {3, model.config.vocab_size};
  inference.append_all(0, ids, logits.view(0, DType::f32, shape));
  return model.packed->bytes();
}

class PackedForms : public testing::TestWithParam<std::tuple<SmallConfig, Isa>> {
 protected:
  PackedForms() : random_(make_config(std::get<0>(GetParam())), DType::f32) {}
  Isa isa() const { return std::get<1>(GetParam()); }
  RandomModel random_;
};

TEST_P(PackedForms, AreThoseOfInference) {
  for (const DType compute : kComputed) {
    for (const bool in_place : {false, true}) {
      const PackedUse use{.compute = compute, .in_place = in_place};
      EXPECT_EQ(counted(random_.model, isa(), use), held_after_inference(random_.model, isa(), use))
          << dtype_name(compute) << " " << in_place;
    }
  }
}

TEST_P(PackedForms, AreThoseOfInferenceWithStoredWeights) {
  for (const DType stored : {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_0}) {
    StoredWeights weights(random_, stored);
    for (const DType compute : kComputed) {
      for (const bool in_place : {false, true}) {
        const PackedUse use{.compute = compute, .in_place = in_place};
        EXPECT_EQ(counted(weights.model, isa(), use), held_after_inference(weights.model, isa(), use))
            << dtype_name(stored) << " " << dtype_name(compute) << " " << in_place;
      }
    }
  }
}

TEST_P(PackedForms, AreThoseOfTraining) {
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    Model& model = random_.model;
    model.packed = std::make_unique<WeightCache>();
    ThreadPool pool(1);
    TrainingGraph graph(model, 1, model.config.n_ctx, {.dtype = compute}, backend(pool, isa()));
    const ParamBuffer grads(model.table, DType::f32, "gradients", device());
    const std::vector<int32_t> ids = random_ids(model.config.n_ctx, model.config.vocab_size, 1);
    StepState state;
    DeviceArray<StepState> step(device());
    graph.forward_backward({.ids = ids.data(), .targets = ids.data()}, grads, false, step.share({&state, 1}));
    const PackedUse use{.compute = compute, .gradients = true};
    // A plan only knows the parameter table.
    EXPECT_EQ(packed_bytes(model.table, {}, kernel_table(isa()), use), model.packed->bytes())
        << dtype_name(compute);
    EXPECT_EQ(counted(model, isa(), use), model.packed->bytes()) << dtype_name(compute);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PackedForms,
                         testing::Combine(testing::ValuesIn(kPackedConfigs),
                                          testing::ValuesIn(available_isas())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  std::string(isa_name(std::get<1>(info.param)));
                         });

// An embedding that is not also the head is a lookup table and never packed.
TEST(PackedBytes, LeaveOutAnEmbeddingThatIsNotTheHead) {
  const Model model(make_config({"wide", "llama", R"({"vocab_size": 128, "n_embd": 64})"}));
  for (const PackedForm& form :
       packed_forms(model.table, {}, kernel_table(best_isa()), {.compute = DType::bf16, .gradients = true}))
    EXPECT_GT(form.first, model.table.find(Role::wte));
}

}  // namespace
}  // namespace gpt::test

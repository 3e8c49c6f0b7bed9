// Compares the losses of fine-tuning with PyTorch in float64 (scripts/golden/make_objectives.py). The losses
// are computed like in a training step, for every instruction set and various micro-batches.

#include <gtest/gtest.h>

#include <cstring>

#include "finetune/dpo.h"
#include "finetune/grpo.h"
#include "io/safetensors.h"
#include "model/model_files.h"
#include "support/backend.h"
#include "support/isas.h"
#include "train/train_step.h"

namespace gpt::test {
namespace {

constexpr int64_t kSamples = 4, kGoldenTokens = 10;
constexpr double kBeta = 0.3, kTemperature = 0.5;

struct Case {
  const char *family, *name;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.family << " " << c.name;
}

class ObjectiveGolden : public testing::TestWithParam<Case> {
 protected:
  template <class T>
  std::vector<T> golden(const std::string& key) const {
    const TensorInfo* tensor = file_.find(std::string(GetParam().name) + "." + key);
    if (tensor == nullptr) throw std::logic_error("no golden " + key);
    std::vector<T> numbers(tensor->bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), tensor->bytes.data(), tensor->bytes.size());
    return numbers;
  }

  const Objective& objective() const {
    static const Preferences preferences(kGoldenTokens, kBeta);
    static const PolicyGradient policy, tempered(kTemperature);
    const std::string name = GetParam().name;
    if (name == "dpo") return preferences;
    if (name == "tempered") return tempered;
    return name == "policy" ? policy : language_modelling();
  }

  TrainStep::FillBatch fill() const {
    return [this](int64_t first, int64_t rows, const TrainStep::Samples& s) {
      const auto ids = golden<int32_t>("ids"), targets = golden<int32_t>("targets"),
                 starts = golden<int32_t>("starts");
      const auto weights = golden<float>("weights"), labels = golden<float>("labels");
      const bool policy = dynamic_cast<const PolicyGradient*>(&objective()) != nullptr;
      for (int64_t i = 0; i < rows * kGoldenTokens; ++i) {
        const auto at = static_cast<size_t>(first * kGoldenTokens + i);
        s.ids[i] = ids[at];
        s.targets[i] = targets[at];
        s.starts[i] = static_cast<uint8_t>(starts[at]);
        s.weights[i] = policy ? labels[at / kGoldenTokens] : weights[at];
      }
      for (int64_t row = 0; row < rows; ++row)
        s.labels[row] = labels[static_cast<size_t>(first + row)];
    };
  }

  void expect_agrees(DType dtype, Isa isa, int64_t micro_batch, double tolerance) const {
    SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << isa_name(isa) << " " << micro_batch);
    const LoadedModel loaded(kData + GetParam().family);
    ModelConfig config = loaded.model().config;
    config.dropout = config.embd_dropout = config.attn_dropout = config.resid_dropout = 0;
    Model model(config);
    const ParamBuffer weights(model.table, dtype, "test weights", device());
    loaded.copy_to(weights);
    model.weights.assign(weights.views().begin(), weights.views().end());
    ThreadPool pool(2);
    TrainStep step(model, weights, make_adamw(model.table, {}), backend(pool, isa),
                   {.batch_size = kSamples,
                    .micro_batch = micro_batch,
                    .n_ctx = kGoldenTokens,
                    .graph = {.dtype = dtype, .objective = &objective()}});
    step.compute_gradients({}, fill());
    EXPECT_NEAR(step.state().loss, golden<double>("loss")[0], tolerance);
    for (const NamedTensor& tensor :
         named_weights(model, step.grads().views(), loaded.naming(), DType::f64)) {
      std::vector<double> got;
      tensor.write([&](std::span<const std::byte> bytes) {
        const size_t at = got.size();
        got.resize(at + bytes.size() / sizeof(double));
        std::memcpy(got.data() + at, bytes.data(), bytes.size());
      });
      const std::vector<double> want = golden<double>("grad." + tensor.name);
      ASSERT_EQ(got.size(), want.size()) << tensor.name;
      double error = 0, top = 1e-3;
      for (size_t i = 0; i < got.size(); ++i) {
        error = std::max(error, std::abs(got[i] - want[i]));
        top = std::max(top, std::abs(want[i]));
      }
      EXPECT_LE(error, tolerance * top) << tensor.name;
    }
  }

  const std::string kData = GPT_SOURCE_DIR "/tests/golden/data/";
  SafetensorsFile file_{std::string(GPT_SOURCE_DIR "/tests/golden/objectives/") + GetParam().family +
                        ".safetensors"};
};

TEST_P(ObjectiveGolden, AgreesWithPyTorch) {
  for (const int64_t micro_batch : {4, 2, 1}) {
    if (micro_batch % objective().group() != 0) continue;
    expect_agrees(DType::f64, Isa::ref, micro_batch, 1e-6);
    for (const Isa isa : available_isas())
      expect_agrees(DType::f32, isa, micro_batch, 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ObjectiveGolden,
                         testing::Values(Case{"gpt2", "masked"}, Case{"gpt2", "packed"}, Case{"gpt2", "dpo"},
                                         Case{"gpt2", "policy"}, Case{"gpt2", "tempered"},
                                         Case{"llama", "masked"}, Case{"llama", "packed"},
                                         Case{"llama", "dpo"}, Case{"llama", "policy"},
                                         Case{"llama", "tempered"}),
                         [](const auto& param) {
                           return std::string(param.param.family) + "_" + param.param.name;
                         });

}  // namespace
}  // namespace gpt::test

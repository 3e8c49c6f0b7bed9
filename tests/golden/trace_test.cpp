// Checks that `gpt trace` shows the values that `gpt verify` compares. Compares logits and attention of every
// family with its golden vectors. Also recomputes attention weights from the traced scores.

#include <gtest/gtest.h>

#include "io/safetensors.h"
#include "model/model_files.h"
#include "support/backend.h"
#include "support/small_models.h"
#include "tensor/element.h"
#include "trace/capture.h"
#include "trace/views.h"

namespace gpt::test {
namespace {

const std::string kFamilies[] = {"gpt1",         "gpt1-preln", "gpt2",         "gpt2-scratch",
                                 "mini-gpt",     "nanochat",   "nanochat-mqa", "nanochat-notebook",
                                 "nanochat-doc", "llama",      "llama3-rope",  "qwen2",
                                 "mistral"};

class TraceGolden : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return GPT_SOURCE_DIR "/tests/golden/data/" + GetParam(); }

  template <class T>
  static std::vector<T> values(const SafetensorsFile& file, const std::string& name) {
    const TensorInfo* tensor = file.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<T> out(tensor->bytes.size() / sizeof(T));
    std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
    return out;
  }

  // Compares logits, attention and recomputed attention of all sequences of the golden file with their
  // tolerances.
  void compare(DType dtype, Isa isa, double logit_tolerance, double weight_tolerance) {
    const SafetensorsFile golden(folder() + "/golden.safetensors");
    const LoadedModel loaded(folder(), dtype, MatrixOrder::rows, {}, device());
    const Shape shape = golden.find("input_ids")->shape;
    const std::vector<int64_t> wide_ids = values<int64_t>(golden, "input_ids");
    const std::vector<int32_t> ids(wide_ids.begin(), wide_ids.end());
    const std::vector<float> logits = values<float>(golden, "logits");
    ThreadPool pool(1);
    const int64_t B = shape[0], T = shape[1], V = loaded.model().config.vocab_size;
    for (int64_t b = 0; b < B; ++b) {
      const Capture capture(loaded.model(), backend(pool, isa),
                            std::span(ids).subspan(static_cast<size_t>(b * T), static_cast<size_t>(T)),
                            {.dtype = dtype});
      for (int64_t i = 0; i < T * V; ++i)
        ASSERT_NEAR(element(capture.logits(), i / V, i % V), logits[static_cast<size_t>(b * T * V + i)],
                    logit_tolerance);
      for (int64_t layer = 0; layer < capture.n_layer(); ++layer)
        compare_attention(capture, layer, b, values<float>(golden, "attention." + std::to_string(layer)),
                          weight_tolerance);
    }
  }

  static void compare_attention(const Capture& capture, int64_t layer, int64_t b,
                                const std::vector<float>& golden, double tolerance) {
    const int64_t T = capture.n_tokens(), H = capture.config().n_head;
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < T; ++i) {
        const std::vector<AttentionScore> row = score_row(capture, layer, h, i);
        for (int64_t j = 0; j < T; ++j) {
          const double expected = golden[static_cast<size_t>(((b * H + h) * T + i) * T + j)];
          ASSERT_NEAR(element(capture.block(layer).weights, h * T + i, j), expected, tolerance)
              << layer << " " << h;
          ASSERT_NEAR(row[static_cast<size_t>(j)].weight, expected, tolerance) << layer << " " << h;
        }
      }
    }
  }
};

// Pages and tables show four decimals, so the tolerance is half a unit of the fourth decimal.
TEST_P(TraceGolden, EqualsToTheDigitsShown) {
  for (const Isa isa : available_isas())
    compare(DType::f32, isa, 5e-5, 5e-5);
  compare(DType::f64, Isa::ref, 2e-6, 1e-6);  // golden values are rounded to fp32
}

INSTANTIATE_TEST_SUITE_P(Families, TraceGolden, testing::ValuesIn(kFamilies),
                         [](const auto& param) { return test_name(param.param); });

}  // namespace
}  // namespace gpt::test

// Tests checkpoints with GPT-2 tensor names that only contain tensors.

#include "model/families/checkpoints.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "io/safetensors.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "support/backend.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

const std::string kMinGpt = GPT_SOURCE_DIR "/tests/data/torch/mingpt";

// Compares with the logits of the generator script, which computes them in float64.
void expect_logits(const Model& model) {
  const SafetensorsFile golden(kMinGpt + "/logits.safetensors");
  const TensorInfo &ids = *golden.find("ids"), &expected = *golden.find("logits");
  const auto* first = reinterpret_cast<const int64_t*>(ids.bytes.data());
  const std::vector<int32_t> tokens(first, first + ids.shape[0]);
  std::vector<float> logits(static_cast<size_t>(expected.shape[0] * expected.shape[1]));
  ThreadPool pool(1);
  Inference inference(model, backend(pool, Isa::ref), {});
  inference.append_all(0, tokens, make_view(logits.data(), {expected.shape[0], expected.shape[1]}));
  const auto* values = reinterpret_cast<const double*>(expected.bytes.data());
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(logits[i], values[i], 1e-4) << i;
}

TEST(MinGpt, ComputesItsLogits) {
  const LoadedModel beside(kMinGpt, DType::f32, MatrixOrder::rows, {}, device());
  EXPECT_EQ(&beside.naming(), &kNanoGptNaming);
  EXPECT_EQ(beside.model().config.n_head, 3);
  EXPECT_FALSE(beside.model().config.tie_embeddings);
  EXPECT_EQ(beside.model().config.resid_dropout, 0.1);
  expect_logits(beside.model());
  TempDir dir;
  std::filesystem::copy(kMinGpt + "/model.pt", dir.file("m.pt"));
  const LoadedModel alone(dir.file("m.pt"), DType::f32, MatrixOrder::rows, {.n_head = 3}, device());
  expect_logits(alone.model());
  EXPECT_TRUE(test::refused([&] { LoadedModel(dir.file("m.pt")); }, dir.file("m.pt"),
                            {"n_head", "n_embd", "--n-head"}));
}

// The file has tensors [out,in] and a transformers config.json next to it.
TEST(MinGpt, TheMatrixThatIsNeverSquareTellsTheOrder) {
  TempDir dir;
  std::filesystem::copy(kMinGpt + "/model.pt", dir.file("m.pt"));
  write_plain_file(dir.file("config.json"),
                   R"({"model_type": "gpt2", "n_layer": 2, "n_head": 3, "n_embd": 12, "n_positions": 7,
                       "vocab_size": 13, "tie_word_embeddings": false})");
  expect_logits(LoadedModel(dir.file("m.pt"), DType::f32, MatrixOrder::rows, {}, device()).model());
}

}  // namespace
}  // namespace gpt::test

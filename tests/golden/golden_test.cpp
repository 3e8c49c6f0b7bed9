// Compares every model family with its golden vectors on every instruction set. The comparison itself is also
// tested: it must fail if any value in a golden file is wrong, and must be able to write the computed values
// to a file.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "io/safetensors.h"
#include "support/backend.h"
#include "support/reference.h"
#include "support/small_models.h"
#include "support/temp_dir.h"
#include "verify/verify.h"

namespace gpt::test {
namespace {

namespace fs = std::filesystem;

// The families that a test run must compare. A missing family is a failure, not a skip.
const std::string kFamilies[] = {"gpt1",         "gpt1-preln", "gpt2",         "gpt2-scratch",
                                 "mini-gpt",     "nanochat",   "nanochat-mqa", "nanochat-notebook",
                                 "nanochat-doc", "llama",      "llama3-rope"};
const std::string kSmallOnly[] = {"qwen2", "mistral"};  // have no larger reference models

std::string committed(const std::string& family) {
  return GPT_SOURCE_DIR "/tests/golden/data/" + family;
}

VerifyOptions options(const std::string& golden, Isa isa, DType dtype = DType::f32,
                      const std::string& write = "") {
  return {.golden = golden, .write = write, .dtype = dtype, .isa = isa, .threads = 1, .backend = backend};
}

std::string failures(const VerifyResult& result) {
  std::string text;
  for (const VerifyCheck& check : result.checks) {
    if (!check.passed)
      text += fmt::format("{}: {} > {}; {}\n", check.name, check.error, check.tolerance, check.detail);
  }
  return text;
}

void expect_passes(const std::string& folder, DType dtype, Isa isa) {
  const VerifyResult result = verify_model(folder, options(folder + "/golden.safetensors", isa, dtype));
  EXPECT_GE(result.checks.size(), 8u) << folder << ": nearly nothing was compared";
  EXPECT_TRUE(result.passed()) << folder << " " << dtype_name(dtype) << " " << isa_name(isa) << "\n"
                               << failures(result);
}

void expect_passes_everywhere(const std::string& folder) {
  expect_passes(folder, DType::f64, Isa::ref);
  for (Isa isa : available_isas())
    expect_passes(folder, DType::f32, isa);
}

// The errors in bf16 may be at most twice the errors of PyTorch on the same model.
void expect_passes_in_bf16(const std::string& folder, const std::string& bf16_errors) {
  ASSERT_TRUE(fs::exists(bf16_errors)) << "scripts/golden/bf16_errors.py writes it";
  for (Isa isa : available_isas()) {
    VerifyOptions in_bf16 = options(folder + "/golden.safetensors", isa, DType::bf16);
    in_bf16.bf16_errors = bf16_errors;
    const VerifyResult result = verify_model(folder, in_bf16);
    EXPECT_GE(result.checks.size(), 8u) << folder;
    EXPECT_TRUE(result.passed()) << folder << " bf16 " << isa_name(isa) << "\n" << failures(result);
  }
}

class CommittedGolden : public testing::TestWithParam<std::string> {};

TEST_P(CommittedGolden, AgreesInEveryDtypeAndInstructionSet) {
  const std::string folder = committed(GetParam());
  ASSERT_TRUE(fs::exists(folder + "/golden.safetensors")) << "no golden vectors of " << GetParam();
  expect_passes_everywhere(folder);
}

TEST_P(CommittedGolden, InBf16IsNotMuchFurtherOffThanPyTorch) {
  const std::string folder = committed(GetParam());
  expect_passes_in_bf16(folder, folder + "/golden_bf16.json");
}

// A golden file without one of these tensors would leave that part unchecked: logits, loss, attention,
// gradients, optimizer steps and greedy ids.
TEST_P(CommittedGolden, HasEveryKindOfTensor) {
  const SafetensorsFile golden(committed(GetParam()) + "/golden.safetensors");
  for (const char* name : {"input_ids", "targets", "logits", "incremental_logits", "loss", "attention.0",
                           "greedy", "adamw.loss", "adamw.grad_norm"}) {
    EXPECT_NE(golden.find(name), nullptr) << name;
  }
  const SafetensorsFile weights(committed(GetParam()) + "/model.safetensors");
  int64_t gradients = 0, updated = 0;
  for (const TensorInfo& tensor : weights.tensors()) {
    gradients += golden.find("grad." + tensor.name) != nullptr;
    updated += golden.find("adamw.param." + tensor.name) != nullptr;
  }
  EXPECT_GE(gradients, 8);
  EXPECT_EQ(gradients, updated);
}

INSTANTIATE_TEST_SUITE_P(Families, CommittedGolden, testing::ValuesIn(kFamilies),
                         [](const auto& param) { return test_name(param.param); });
INSTANTIATE_TEST_SUITE_P(SmallOnly, CommittedGolden, testing::ValuesIn(kSmallOnly),
                         [](const auto& param) { return test_name(param.param); });

// Tests the larger reference models.
class ReferenceGolden : public testing::TestWithParam<std::string> {};

TEST_P(ReferenceGolden, AgreesInEveryDtypeAndInstructionSet) {
  const std::string models = test::reference_path("models"), folder = models + "/" + GetParam();
  GPT_SKIP_WITHOUT(models);
  ASSERT_TRUE(fs::exists(folder + "/golden.safetensors")) << folder;
  expect_passes_everywhere(folder);
  expect_passes_in_bf16(folder,
                        GPT_SOURCE_DIR "/tests/golden/reference_bf16/" + GetParam() + "/golden_bf16.json");
}

INSTANTIATE_TEST_SUITE_P(Families, ReferenceGolden, testing::ValuesIn(kFamilies),
                         [](const auto& param) { return test_name(param.param); });

TEST(ReferenceGolden, Stories260k) {
  const std::string folder = test::reference_path("models/stories260k");
  GPT_SKIP_WITHOUT(folder);
  for (Isa isa : available_isas())
    expect_passes(folder, DType::f32, isa);
  expect_passes(folder, DType::f64, Isa::ref);
  expect_passes_in_bf16(folder, GPT_SOURCE_DIR "/tests/golden/reference_bf16/stories260k/golden_bf16.json");
  const VerifyResult bin =
      verify_model(folder + "/stories260K.bin", options(folder + "/golden.safetensors", best_isa()));
  EXPECT_TRUE(bin.passed()) << failures(bin);
}

// ---------------------------------------------------------------------------------------------------
// Tests that the comparison detects errors.

class Perturbed {
 public:
  explicit Perturbed(const std::string& family)
      : folder_(committed(family)), original_(read_file(folder_ + "/golden.safetensors")) {}

  const SafetensorsFile golden() const {
    return {std::as_bytes(std::span(original_.data(), original_.size())), "golden"};
  }

  // Returns true if verify fails after the given value has been changed.
  bool noticed(const TensorInfo& tensor, int64_t index) {
    std::string changed = original_;
    char* at = changed.data() + (reinterpret_cast<const char*>(tensor.bytes.data()) - original_.data()) +
               index * static_cast<int64_t>(dtype_size(tensor.dtype));
    if (tensor.dtype == DType::i64) {
      int64_t id;
      std::memcpy(&id, at, sizeof id);
      id += 1;
      std::memcpy(at, &id, sizeof id);
    } else {
      float x;
      std::memcpy(&x, at, sizeof x);
      x += 1e-4f * std::abs(x) + 1e-4f;
      std::memcpy(at, &x, sizeof x);
    }
    const std::string path = dir_.file("golden.safetensors");
    write(path, changed);
    try {
      return !verify_model(folder_, options(path, best_isa())).passed();
    } catch (const Error&) {
      return true;  // an id outside every vocabulary
    }
  }

  static void write(const std::string& path, const std::string& bytes) { write_plain_file(path, bytes); }
  const std::string& folder() const { return folder_; }
  TempDir& dir() { return dir_; }
  const std::string& bytes() const { return original_; }

 private:
  TempDir dir_;
  std::string folder_, original_;
};

class GoldenPerturbed : public testing::TestWithParam<std::string> {};

// Changes the first, middle and last value of every tensor.
TEST_P(GoldenPerturbed, EveryTensorIsCompared) {
  Perturbed perturbed(GetParam());
  const SafetensorsFile golden = perturbed.golden();
  for (const TensorInfo& tensor : golden.tensors()) {
    const int64_t n = checked_size(tensor.shape, tensor.name);
    for (int64_t index : std::set<int64_t>{0, n / 2, n - 1}) {
      EXPECT_TRUE(perturbed.noticed(tensor, index))
          << tensor.name << " entry " << index << " is not compared";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenPerturbed, testing::Values("gpt1", "gpt2", "llama", "nanochat-mqa"),
                         [](const auto& param) { return test_name(param.param); });

TEST(GoldenWritten, IsWhatWasComputedAndNotWhatWasRead) {
  for (const char* family : {"gpt2", "llama", "nanochat"}) {
    Perturbed p(family);
    const std::string plain = p.dir().file("plain.safetensors"), other = p.dir().file("other.safetensors");
    const std::string changed = p.dir().file("golden.safetensors");
    verify_model(p.folder(), options(p.folder() + "/golden.safetensors", best_isa(), DType::f32, plain));

    // Changes every float of the golden file and keeps the inputs.
    std::string bytes = p.bytes();
    const SafetensorsFile golden = p.golden();
    for (const TensorInfo& tensor : golden.tensors()) {
      if (tensor.name == "input_ids" || tensor.name == "targets" || tensor.name == "greedy") continue;
      char* at = bytes.data() + (reinterpret_cast<const char*>(tensor.bytes.data()) - p.bytes().data());
      std::memset(at, 0x3f, tensor.bytes.size());  // each float becomes 0.747
    }
    write_plain_file(changed, bytes);
    const VerifyResult result = verify_model(p.folder(), options(changed, best_isa(), DType::f32, other));
    EXPECT_FALSE(result.passed());
    EXPECT_EQ(read_file(plain), read_file(other)) << family << ": what is written follows the golden file";

    // The written file must also be complete and correct, so that with the inputs it can serve as a golden
    // file.
    const SafetensorsFile written(plain);
    for (const TensorInfo& tensor : golden.tensors()) {
      if (tensor.name == "input_ids" || tensor.name == "targets") continue;
      const TensorInfo* mine = written.find(tensor.name);
      ASSERT_NE(mine, nullptr) << family << " " << tensor.name;
      ASSERT_EQ(mine->shape, tensor.shape) << family << " " << tensor.name;
      ASSERT_EQ(mine->dtype, tensor.dtype) << family << " " << tensor.name;
      if (tensor.dtype != DType::f32 || tensor.name.rfind("adamw.param.", 0) == 0) continue;
      for (size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) {
        float a, b;
        std::memcpy(&a, mine->bytes.data() + i * sizeof a, sizeof a);
        std::memcpy(&b, tensor.bytes.data() + i * sizeof b, sizeof b);
        ASSERT_NEAR(a, b, 1e-4 * std::max(1.0f, std::abs(b))) << family << " " << tensor.name << " " << i;
      }
    }
  }
}

TEST(GoldenFiles, BrokenOnesAreErrors) {
  const std::string folder = committed("gpt2");
  TempDir dir;
  EXPECT_THROW(verify_model(folder, options(dir.file("none.safetensors"), Isa::ref)), Error);
  write_plain_file(dir.file("short.safetensors"), read_file(folder + "/golden.safetensors").substr(0, 1000));
  EXPECT_THROW(verify_model(folder, options(dir.file("short.safetensors"), Isa::ref)), Error);
  // The golden file of a different model has different shapes and names.
  try {
    EXPECT_FALSE(
        verify_model(folder, options(committed("llama") + "/golden.safetensors", Isa::ref)).passed());
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace gpt::test

// Tests the parts of the comparison that golden tests do not cover: models without targets, notes, and golden
// files with a wrong shape.

#include "verify/verify.h"

#include <gtest/gtest.h>

#include <deque>

#include "io/safetensors_writer.h"
#include "support/small_models.h"
#include "support/temp_dir.h"
#include "verify/compute.h"

namespace gpt::test {
namespace {

class Verify : public testing::Test {
 protected:
  Verify() : random_(make_config(small_config("llama_tied_gqa")), DType::f32) {
    write_model(dir_.path(), random_.model, random_.model.weights);
  }

  // Writes a golden file with the given ids [batch,n] and the named tensors of the computed set.
  std::string golden(const std::vector<int32_t>& ids, int64_t batch, const std::vector<std::string>& names) {
    GoldenInputs inputs;
    inputs.batch = batch;
    inputs.n_tokens = static_cast<int64_t>(ids.size()) / batch;
    inputs.ids = ids;
    inputs.prompt = std::min<int64_t>(4, inputs.n_tokens);
    bool equal = false;
    const ComputedSet computed = compute_golden(dir_.path(), inputs, DType::f64, Isa::ref, 1, equal);
    EXPECT_TRUE(equal);
    std::vector<NamedTensor> tensors;
    std::deque<std::vector<float>> floats;
    std::vector<int64_t> wide(ids.begin(), ids.end());
    tensors.push_back(named_tensor("input_ids", make_view(wide.data(), {batch, inputs.n_tokens})));
    for (const std::string& name : names) {
      const Computed& c = computed.at(name);
      floats.emplace_back(c.values.begin(), c.values.end());
      tensors.push_back(named_tensor(
          name, make_view(floats.back().data(), {static_cast<int64_t>(c.values.size())}), c.shape));
    }
    const std::string path = dir_.file("golden.safetensors");
    write_safetensors(path, tensors);
    return path;
  }
  VerifyResult verify(const std::string& path) {
    return verify_model(dir_.path(), {.golden = path, .write = "", .isa = best_isa()});
  }

  TempDir dir_;
  RandomModel random_;
};

TEST_F(Verify, WorksWithoutTargets) {
  const VerifyResult result = verify(golden({1, 2, 3, 4, 5, 6}, 2, {"logits", "attention.1"}));
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(result.checks.size(), 3u);  // also compares incremental with full logits
  EXPECT_NE(result.exact_note.find("fp64"), std::string::npos);
}

TEST_F(Verify, OneTokenIsEnough) {
  EXPECT_TRUE(verify(golden({7}, 1, {"logits", "incremental_logits"})).passed());
}

TEST_F(Verify, WrongIdsAndLengthsAreErrors) {
  EXPECT_THROW(verify(golden({1, 2}, 1, {})).passed(), Error) << "nothing to compare";
  std::vector<int64_t> ids = {1, 2, 99};
  const std::string path = dir_.file("golden.safetensors");
  write_safetensors(path, std::vector<NamedTensor>{named_tensor("input_ids", make_view(ids.data(), {1, 3}))});
  EXPECT_THROW(verify(path), Error);
  std::vector<int64_t> many(100, 1);
  write_safetensors(path,
                    std::vector<NamedTensor>{named_tensor("input_ids", make_view(many.data(), {1, 100}))});
  EXPECT_THROW(verify(path), Error) << "longer than the context";
  write_safetensors(path, std::vector<NamedTensor>{named_tensor("input_ids", make_view(many.data(), {100}))});
  EXPECT_THROW(verify(path), Error) << "not [B,T]";
}

}  // namespace
}  // namespace gpt::test

// Compares the effect of keys in a transformers config.json here and in transformers. The tested variants are
// the committed selection of the variants that scripts/golden/config_variants.py compares.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "io/safetensors.h"
#include "support/backend.h"
#include "support/isas.h"
#include "support/temp_dir.h"
#include "verify/compute.h"

namespace gpt::test {
namespace {

using nlohmann::json;

constexpr double kTolerance = 3e-4;  // as in the script
constexpr size_t kFewest = 120;

json read_cases() {
  return json::parse(read_file(GPT_SOURCE_DIR "/tests/golden/config_variants.json"));
}

// Creates the folder of a case: its base model with different config keys.
class Variant {
 public:
  explicit Variant(const json& c)
      : base_(GPT_SOURCE_DIR "/tests/golden/data/" + c["folder"].get<std::string>()) {
    json config = json::parse(read_file(base_ + "/config.json"));
    for (const json& key : c["remove"])
      config.erase(key.get<std::string>());
    config.update(c["set"]);
    write_plain_file(dir_.file("config.json"), config.dump());
    std::filesystem::create_symlink(base_ + "/model.safetensors", dir_.file("model.safetensors"));
  }

  // Returns the logits of all positions within the context.
  std::vector<double> logits() const {
    const SafetensorsFile golden(base_ + "/golden.safetensors");
    const TensorInfo& ids = *golden.find("input_ids");
    GoldenInputs inputs;
    inputs.batch = ids.shape[0];
    inputs.n_tokens = std::min(ids.shape[1], LoadedModel(dir_.path()).model().config.n_ctx);
    inputs.greedy = 0;
    inputs.prompt = 1;
    for (int64_t b = 0; b < inputs.batch; ++b) {
      for (int64_t t = 0; t < inputs.n_tokens; ++t) {
        int64_t id;
        std::memcpy(&id, ids.bytes.data() + static_cast<size_t>(b * ids.shape[1] + t) * sizeof id, sizeof id);
        inputs.ids.push_back(static_cast<int32_t>(id));
      }
    }
    last_row_ = inputs.n_tokens - 1;
    bool unused = false;
    return compute_golden(dir_.path(), inputs, DType::f32, best_isa(), 1, unused, backend)["logits"].values;
  }

  std::vector<double> golden_logits() const {
    const SafetensorsFile golden(base_ + "/golden.safetensors");
    const TensorInfo& tensor = *golden.find("logits");
    std::vector<double> values;
    for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
      float x;
      std::memcpy(&x, tensor.bytes.data() + at, sizeof x);
      values.push_back(x);
    }
    return values;
  }

  int64_t last_row() const { return last_row_; }
  int64_t vocabulary() const { return LoadedModel(dir_.path()).model().config.vocab_size; }

 private:
  std::string base_;
  TempDir dir_;
  mutable int64_t last_row_ = 0;
};

// Collects the keys of a JSON object, including those of nested objects.
void add_keys(const json& object, std::vector<std::string>& keys) {
  if (!object.is_object()) return;
  for (const auto& item : object.items()) {
    keys.push_back(item.key());
    add_keys(item.value(), keys);
  }
}

void expect_refused(const json& c) {
  std::vector<std::string> keys = c["remove"];
  add_keys(c["set"], keys);
  try {
    Variant(c).logits();
    ADD_FAILURE() << c << " is accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(std::any_of(keys.begin(), keys.end(),
                            [&](const std::string& key) { return message.find(key) != std::string::npos; }))
        << c << ": the message names no key: " << message;
  }
}

void expect_logits(const json& c) {
  const Variant variant(c);
  const std::vector<double> found = variant.logits();
  std::vector<double> expected;
  size_t from = 0;
  if (c.contains("logits")) {
    expected = c["logits"].get<std::vector<double>>();
    from = static_cast<size_t>(variant.last_row() * variant.vocabulary());
  } else {
    expected = variant.golden_logits();
  }
  ASSERT_GE(found.size(), from + expected.size()) << c;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(found[from + i] - expected[i]) <= kTolerance) continue;
    ADD_FAILURE() << c << ": logit " << i << ": expected " << expected[i] << ", found " << found[from + i];
    return;
  }
}

TEST(ConfigVariants, MeanWhatTransformersMakesOfThem) {
  const json cases = read_cases();
  EXPECT_GE(cases.size(), kFewest);
  for (const json& c : cases) {
    try {
      c.value("expect", "") == "refused" ? expect_refused(c) : expect_logits(c);
    } catch (const std::exception& error) {
      ADD_FAILURE() << c << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace gpt::test

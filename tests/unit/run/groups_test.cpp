// Tests resuming of runs with Muon, averaged weights or frozen weights.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/safetensors.h"
#include "run/trainer.h"
#include "support/backend.h"
#include "support/error_of.h"
#include "support/isas.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

class GroupsRun : public testing::TestWithParam<const char*> {
 protected:
  TrainRequest request(const std::string& name, int64_t stop_after) {
    Settings settings;
    settings.add_preset("tiny");
    settings.add_json(nlohmann::json::parse(R"({
      "n_layer": 2, "n_embd": 16, "n_head": 2, "n_kv_head": 2, "d_ff": 32, "n_ctx": 16, "data": ["tales:20000"],
      "steps": 12, "warmup": 0, "lr": 1e-3, "batch_size": 4, "eval_every": 6, "eval_batches": 2,
      "sample_every": 0})"),
                      "test");
    settings.add_json(nlohmann::json::parse(GetParam()), "test");
    settings.add_json({{"stop_after", stop_after}, {"threads", stop_after == 0 ? 1 : 2}}, "test");
    TrainRequest request;
    request.config = settings.resolve();
    request.out = dir_.file(name);
    std::filesystem::create_directories(request.out);
    request.kernels = &kernels(best_isa());
    request.device = shared_device();
    request.brief = true;
    return request;
  }
  std::string bytes(const std::string& path) const { return read_file(dir_.file(path)); }

  TempDir dir_;
};

TEST_P(GroupsRun, StopsAndResumesToTheSameBits) {
  run_training(request("whole", 0), {});
  run_training(request("parts", 5), {});
  TrainRequest rest = request("parts", 0);
  rest.resume = true;
  run_training(rest, {});
  for (const std::string file :
       {"last/model.safetensors", "last/train_state.safetensors", "best/model.safetensors"})
    EXPECT_TRUE(bytes("whole/" + file) == bytes("parts/" + file)) << file;
}

INSTANTIATE_TEST_SUITE_P(All, GroupsRun,
                         testing::Values(R"({"optimizer": "muon"})", R"({"optimizer": "muon-nanochat"})",
                                         R"({"optimizer": "muon", "dtype": "bf16", "ema": 0.9})",
                                         R"({"ema": 0.99, "layer_decay": 0.8})",
                                         R"({"freeze": ["blocks.0.*"], "lr_scale": ["wte.*=0.5"]})"));

// Frozen weights do not change, other weights do. The best model contains the averaged weights.
class Groups : public GroupsRun {};
INSTANTIATE_TEST_SUITE_P(Freeze, Groups, testing::Values(R"({"freeze": ["blocks.0.*"], "ema": 0.9})"));

TEST_P(Groups, FreezeAndAverage) {
  run_training(request("run", 0), {});
  const SafetensorsFile last(dir_.file("run/last/model.safetensors")),
      best(dir_.file("run/best/model.safetensors")), state(dir_.file("run/last/train_state.safetensors"));
  int moved = 0, averaged = 0;
  for (const TensorInfo& tensor : last.tensors()) {
    const TensorInfo* other = best.find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    const bool same = std::ranges::equal(tensor.bytes, other->bytes);
    if (tensor.name.find(".0.") != std::string::npos) {
      EXPECT_TRUE(same) << tensor.name << " is frozen";
      EXPECT_EQ(state.find("m." + tensor.name), nullptr);
    }
    moved += !same;
  }
  for (const TensorInfo& tensor : state.tensors())
    averaged += tensor.name.starts_with("ema.");
  EXPECT_GT(moved, 3) << "the best model is the average";
  EXPECT_GT(averaged, 3);
}

TEST(Groups, PatternsThatMatchNothingAreRefused) {
  TempDir dir;
  const std::pair<std::string, std::string> refused[] = {{R"({"freeze": ["blocks.7.*"]})", "freeze"},
                                                         {R"({"lr_scale": ["blocs.*=2"]})", "lr_scale"},
                                                         {R"({"lr_scale": ["wte.*"]})", "lr_scale"},
                                                         {R"({"freeze": ["*"]})", "freeze"},
                                                         {R"({"ema": 1.5})", "ema"}};
  for (const auto& [keys, key] : refused) {
    const std::string message = gpt::test::error_of([&, &keys = keys] {
      Settings settings;
      settings.add_preset("tiny");
      settings.add_json(nlohmann::json::parse(keys), "test");
      settings.add_json(nlohmann::json::parse(R"({"data": ["tales:20000"], "steps": 1})"), "test");
      TrainRequest request;
      request.config = settings.resolve();
      request.out = dir.file("run");
      std::filesystem::create_directories(request.out);
      request.brief = true;
      run_training(request, {});
    });
    EXPECT_TRUE(names(message, {key})) << keys;
  }
}

}  // namespace
}  // namespace gpt::test

// Trains and samples from the tiny preset on the toy device (support/toy_device.h). Results must be
// bit-identical to the CPU. Only the kernel layer has code for this device.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "infer/cached_model.h"
#include "infer/generate.h"
#include "model/model_files.h"
#include "run/trainer.h"
#include "support/isas.h"
#include "support/temp_dir.h"
#include "support/toy_device.h"

namespace gpt::test {
namespace {

TrainRequest request(const std::string& out) {
  Settings settings;
  settings.add_preset("tiny");
  settings.add_json(nlohmann::json::parse(R"({
    "data": ["tales:20000"], "n_ctx": 32, "steps": 4, "warmup": 1, "batch_size": 4, "micro_batch": 2, "clip_value": 0.1,
    "attn_dropout": 0.1, "resid_dropout": 0.1, "ema": 0.9, "eval_every": 2, "eval_batches": 1, "sample_every": 0,
    "threads": 1})"),
                    "test");
  TrainRequest request;
  request.config = settings.resolve();
  request.out = out;
  request.kernels = &kernel_table(Isa::ref);
  request.brief = true;
  std::filesystem::create_directories(out);
  return request;
}

std::vector<int32_t> generated(const Backend& backend, const std::string& folder) {
  const LoadedModel loaded(folder, DType::f32, MatrixOrder::rows, {}, backend.device.get());
  Inference inference(loaded.model(), backend, {.slots = 1, .capacity = 32});
  std::vector<int32_t> ids = {1, 2, 3};
  std::vector<float> logits(static_cast<size_t>(loaded.model().config.vocab_size));
  size_t fed = 0;
  for (int i = 0; i < 12; ++i) {
    const Inference::Append part{0, std::span(ids).subspan(fed)};
    fed = ids.size();
    inference.append({&part, 1}, make_view(logits.data(), {1, std::ssize(logits)}));
    ids.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  return ids;
}

TEST(ToyDevice, TrainsAndGeneratesTheBitsOfTheCpu) {
  TempDir dir;
  ThreadPool pool(1);
  const auto toy = std::make_shared<ToyDevice>();
  const ToyKernels kernels(*toy, kernel_table(Isa::ref));
  run_training(request(dir.file("cpu")), {});
  TrainRequest on_toy = request(dir.file("toy"));
  on_toy.kernels = &kernels;
  on_toy.device = toy;
  run_training(on_toy, {});
  EXPECT_GT(toy->own_ops, 4 * 2 * 2) << "its own ops were not called";
  for (const char* file :
       {"last/model.safetensors", "last/train_state.safetensors", "best/model.safetensors"})
    EXPECT_EQ(read_file(dir.file("toy/") + file), read_file(dir.file("cpu/") + file)) << file;
  EXPECT_EQ(generated({pool, kernels, toy}, dir.file("toy/best")),
            generated(host_backend(pool, Isa::ref), dir.file("cpu/best")));
}

}  // namespace
}  // namespace gpt::test

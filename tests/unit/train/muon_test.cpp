// Muon against torch.optim.Muon and nanochat's, both in float64 (scripts/golden/make_muon.py), and what a run
// with it, with averaged or with frozen weights, keeps when it is stopped and goes on.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/safetensors.h"
#include "support/backend.h"
#include "support/error_of.h"
#include "support/isas.h"
#include "support/names.h"
#include "support/temp_dir.h"
#include "train/optimizer.h"
#include "train/trainer.h"

namespace gpt::test {
namespace {

constexpr int64_t kSteps = 20;
constexpr double kRate = 0.05, kDecay = 0.1, kMomentum = 0.95;

std::vector<double> golden(const std::string& key) {
  static const SafetensorsFile file(GPT_SOURCE_DIR "/tests/golden/muon.safetensors");
  const TensorInfo* tensor = file.find(key);
  if (tensor == nullptr) throw std::logic_error("no golden " + key);
  std::vector<double> numbers(tensor->bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), tensor->bytes.data(), tensor->bytes.size());
  return numbers;
}

struct Form {
  const char* name;
  MuonForm form;
};

// The matrix after all updates.
template <class T>
std::vector<double> updated(const std::string& shape, int64_t rows, int64_t cols, const Form& form, Isa isa) {
  const DType dtype = sizeof(T) == sizeof(double) ? DType::f64 : DType::f32;
  ThreadPool pool(2);
  const Backend b = backend(pool, isa);
  const auto n = static_cast<size_t>(rows * cols);
  const Buffer memory_of((3 * n + 100) * sizeof(T), "muon", b.device.get());
  const auto view = [&](size_t at, Shape s) {
    return memory_of.view(static_cast<int64_t>(at * sizeof(T)), dtype, s);
  };
  const TensorView param = view(0, {rows, cols}), grad = view(n, {rows, cols}), m = view(2 * n, {rows, cols}),
                   v = view(3 * n, {std::max(rows, cols)}), change = view(3 * n + 64, {1});
  const auto put = [](const TensorView& to, const double* from) {
    const MappedView access(to, Access::write);
    for (int64_t i = 0; i < to.size(); ++i)
      access->as<T>()[i] = static_cast<T>(from[i]);
  };
  const std::vector<double> start = golden(shape + ".start"), grads = golden(shape + ".grads");
  put(param, start.data());
  const double ratio = static_cast<double>(rows) / static_cast<double>(cols);
  const double adjust = std::string(form.name) == "match_rms_adamw"
                            ? 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)))
                            : std::sqrt(std::max(1.0, ratio));
  const Workspace workspace(muon_scratch(b.kernels, rows, cols, dtype, DType::f32), pool.size(),
                            b.device.get());
  for (int64_t step = 0; step < kSteps; ++step) {
    put(grad, grads.data() + static_cast<size_t>(step) * n);
    StepState state{.step = step, .lr = kRate, .grad_scale = 1};
    DeviceArray<StepState> shared(b.device.get());
    const MuonMatrix matrix{.param = param,
                            .grad = grad,
                            .m = m,
                            .v = form.form == MuonForm::nanochat ? v : TensorView{},
                            .change = change,
                            .rate = adjust,
                            .decay = form.form == MuonForm::nanochat ? kDecay * adjust : kDecay};
    b.kernels.muon(b.context(workspace.scratch()),
                   {.form = form.form,
                    .matrices = {&matrix, 1},
                    .momentum = {.first = kMomentum, .peak = kMomentum, .last = kMomentum, .steps = kSteps},
                    .step = shared.share({&state, 1})});
  }
  const MappedView access(param, Access::read);
  return {access->as<T>(), access->as<T>() + n};
}

double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i)
    error = std::max(error, std::abs(got[i] - want[i]));
  return error;
}

TEST(Muon, AgreesWithTorchAndNanochat) {
  const std::tuple<const char*, int64_t, int64_t> shapes[] = {
      {"square", 6, 6}, {"tall", 11, 5}, {"wide", 4, 9}};
  for (const Form& form : {Form{"original", MuonForm::torch}, Form{"match_rms_adamw", MuonForm::torch},
                           Form{"nanochat", MuonForm::nanochat}}) {
    for (const auto& [shape, rows, cols] : shapes) {
      const std::vector<double> want = golden(std::string(shape) + "." + form.name);
      EXPECT_LT(distance(updated<double>(shape, rows, cols, form, Isa::ref), want), 1e-6)
          << shape << " " << form.name;
      for (const Isa isa : available_isas()) {
        EXPECT_LT(distance(updated<float>(shape, rows, cols, form, isa), want), 1e-3)
            << shape << " " << form.name << " " << isa_name(isa);
      }
    }
  }
}

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

// What is frozen stays, what is not learns; and the average is what is kept as best.
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

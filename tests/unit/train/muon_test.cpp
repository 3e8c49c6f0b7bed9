// Compares Muon with torch.optim.Muon and with the Muon of nanochat, both in float64
// (scripts/golden/make_muon.py).

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/safetensors.h"
#include "support/backend.h"
#include "support/isas.h"
#include "train/optimizer.h"

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

// Returns the matrix after all updates.
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

}  // namespace
}  // namespace gpt::test

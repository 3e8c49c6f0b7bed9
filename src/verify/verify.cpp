#include "verify/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "base/printable.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "verify/compute.h"

namespace gpt {
namespace {

// Maximum number of multiplications for which the golden values are recomputed in fp64. At this limit, the
// scalar code takes a few seconds.
constexpr double kExactLimit = 3e9;

std::vector<double> read_values(const TensorInfo& tensor) {
  std::vector<double> values(static_cast<size_t>(checked_size(tensor.shape, tensor.name)));
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* p = tensor.bytes.data() + i * dtype_size(tensor.dtype);
    if (tensor.dtype == DType::f32) {
      float x;
      std::memcpy(&x, p, sizeof x);
      values[i] = x;
    } else if (tensor.dtype == DType::i64) {
      int64_t x;
      std::memcpy(&x, p, sizeof x);
      values[i] = static_cast<double>(x);
    } else {
      fail("golden tensor \"{}\": expected fp32 or int64, found {}", tensor.name, dtype_name(tensor.dtype));
    }
  }
  return values;
}

std::vector<int32_t> read_ids(const SafetensorsFile& golden, const char* name, Shape& shape) {
  const TensorInfo* tensor = golden.find(name);
  if (tensor == nullptr) return {};
  if (tensor->dtype != DType::i64 || tensor->shape.size() != 2) {
    fail("{}: \"{}\": expected int64 [B,T], found {} {}", golden.path(), name, dtype_name(tensor->dtype),
         shape_string(tensor->shape));
  }
  shape = tensor->shape;
  std::vector<int32_t> ids;
  for (double v : read_values(*tensor)) {
    if (v < -1 || v > INT32_MAX) fail("{}: \"{}\": id {} is out of range", golden.path(), name, v);
    ids.push_back(static_cast<int32_t>(v));
  }
  return ids;
}

GoldenInputs read_inputs(const SafetensorsFile& golden) {
  GoldenInputs inputs;
  Shape shape, target_shape;
  inputs.ids = read_ids(golden, "input_ids", shape);
  if (inputs.ids.empty())
    fail("{}: expected a tensor \"input_ids\" with at least one token id", golden.path());
  inputs.targets = read_ids(golden, "targets", target_shape);
  if (!inputs.targets.empty() && target_shape != shape) {
    fail("{}: \"targets\": expected shape {}, found {}", golden.path(), shape_string(shape),
         shape_string(target_shape));
  }
  inputs.batch = shape[0];
  inputs.n_tokens = shape[1];
  inputs.prompt = std::min<int64_t>(4, inputs.n_tokens);
  if (const TensorInfo* greedy = golden.find("greedy")) {
    const std::vector<double> ids = read_values(*greedy);
    inputs.greedy = static_cast<int64_t>(ids.size());
    // If row 0 is the greedy continuation of its own first id, only that id is the prompt.
    const bool continuation =
        ids.size() + 1 > static_cast<size_t>(inputs.n_tokens) &&
        std::equal(inputs.ids.begin() + 1, inputs.ids.begin() + inputs.n_tokens, ids.begin());
    if (continuation) inputs.prompt = 1;
  }
  return inputs;
}

double largest(const std::vector<double>& values) {
  double top = 0;
  for (double v : values)
    top = std::max(top, std::abs(v));
  return top;
}

// The maximum allowed difference of each entry of a tensor in an fp32 run. docs/golden.md explains the
// constants.
class Tolerance {
 public:
  Tolerance(const std::string& name, const std::vector<double>& expected, const SafetensorsFile& golden,
            const std::map<std::string, double>& key_bias_floors, double norm_eps)
      : kind_(kind_of(name)), floor_(std::max(1e-3, largest(expected))), norm_eps_(norm_eps) {
    const auto shared = key_bias_floors.find(name);
    if (shared != key_bias_floors.end()) floor_ = std::max(floor_, shared->second);
    if (kind_ == Kind::adamw_param) {
      const TensorInfo* grad = golden.find("grad." + name.substr(std::strlen("adamw.param.")));
      if (grad != nullptr) grad_ = read_values(*grad);
    }
  }

  double at(size_t i) const {
    switch (kind_) {
      case Kind::ids:
        return 0;
      case Kind::loss:
        return 1e-5;
      case Kind::grad:
      case Kind::grad_norm:
        return 5e-5 * floor_;
      case Kind::adamw_param:  // Adam amplifies rounding noise if the true gradient is nearly zero
        return i < grad_.size() && std::abs(grad_[i]) >= 1e-5 ? 1e-4 : 4e-3;
      case Kind::logits:
        return norm_eps_ < 5e-7 ? 3e-5 : 1e-4;
    }
    return 0;
  }
  bool relative() const { return kind_ == Kind::grad; }
  double scale() const { return relative() ? floor_ : 1; }

 private:
  enum class Kind { ids, loss, grad, grad_norm, adamw_param, logits };
  static Kind kind_of(const std::string& name) {
    if (name == "greedy") return Kind::ids;
    if (name == "loss" || name == "adamw.loss") return Kind::loss;
    if (name == "adamw.grad_norm") return Kind::grad_norm;
    if (name.starts_with("grad.")) return Kind::grad;
    if (name.starts_with("adamw.param.")) return Kind::adamw_param;
    return Kind::logits;
  }

  Kind kind_;
  double floor_;
  double norm_eps_;
  std::vector<double> grad_;
};

// Tolerances for 16-bit matmuls, by kind of tensor. A tolerance is twice the error of PyTorch in bf16 on the
// same model, as listed in golden_bf16.json. If there is no golden_bf16.json, fixed bounds apply. The fixed
// bounds for logits and gradients are relative to the largest entry of the tensor.
class HalfTolerance {
 public:
  explicit HalfTolerance(const std::string& path) {
    if (path.empty()) return;
    const nlohmann::json object = read_json_file(path);
    if (!object.is_object()) fail("{}: expected a JSON object that maps kinds of tensors to errors", path);
    for (const auto& item : object.items()) {
      if (!item.value().is_number()) fail("{}: \"{}\": expected a number", path, printable(item.key()));
      errors_[item.key()] = item.value().get<double>();
    }
  }

  // Returns false for greedy ids. Greedy ids may differ, because rounding can reorder logits that are nearly
  // equal.
  static bool compares(const std::string& name) { return name != "greedy"; }

  double at(const std::string& name, const std::vector<double>& expected) const {
    const double top = std::max(1e-3, largest(expected));
    const std::string kind = kind_of(name);
    const double unit = kind == "grad" || kind == "adamw.grad_norm" ? top : 1;
    // In the gradient norm, the errors of many gradients can cancel by chance. The measured error may then be
    // too small, so the tolerance of a gradient norm is at least 1/64 of its value.
    const double least = kind == "adamw.grad_norm" ? top / 64 : 0;
    if (const auto error = errors_.find(kind); error != errors_.end())
      return std::max(least, 2 * error->second * unit);
    if (kind == "logits" || kind == "incremental_logits") return top / 32;
    if (kind == "attention") return 1.0 / 32;
    if (kind == "grad" || kind == "adamw.grad_norm") return top / 16;
    if (kind == "adamw.param") return 8e-3;  // four steps of size lr in the wrong direction: 2 * 4 * 1e-3
    return 1.0 / 64;
  }

 private:
  // Returns the kind of a tensor, which selects the error in golden_bf16.json. The loss before the first step
  // uses the error of the four AdamW losses, because the measured error of a single loss may be small by
  // chance.
  std::string kind_of(const std::string& name) const {
    if (name == "loss" && errors_.count("adamw.loss") > 0) return "adamw.loss";
    const size_t first = name.find('.');
    return name.starts_with("adamw.") ? name.substr(0, name.find('.', first + 1)) : name.substr(0, first);
  }

  std::map<std::string, double> errors_;
};

// Returns the magnitude to which the error of each key bias gradient is compared. The true gradient of a key
// bias is zero, so the computed gradient consists only of rounding errors. If q, k and v are separate
// tensors, the reference is the largest entry of all three gradients, as in families with a fused qkv tensor.
std::map<std::string, double> key_bias_floors(const LoadedModel& loaded, const SafetensorsFile& golden) {
  std::map<std::string, double> floors;
  const Model& model = loaded.model();
  const auto gradient_name = [&](Role role, int64_t layer) {
    const int id = model.table.find(role, layer);
    return id < 0 ? std::string()
                  : "grad." + file_place(loaded.naming(), model.config, model.table[id]).tensor;
  };
  for (int64_t layer = 0; layer < model.config.n_layer; ++layer) {
    double top = 0;
    for (Role role : {Role::q_bias, Role::k_bias, Role::v_bias}) {
      const TensorInfo* tensor = golden.find(gradient_name(role, layer));
      if (tensor != nullptr) top = std::max(top, largest(read_values(*tensor)));
    }
    floors[gradient_name(Role::k_bias, layer)] = top;
  }
  return floors;
}

// Golden values that were computed in fp64 differ from fp64 results only because the golden file stores fp32
// values.
double exact_tolerance(const std::string& name, double expected) {
  if (name == "greedy") return 0;
  return 1e-6 * std::max(1e-3, std::abs(expected));
}

template <class ToleranceAt>
VerifyCheck compare(const std::string& name, const std::vector<double>& expected, const Computed& found,
                    double scale, const ToleranceAt& tolerance) {
  VerifyCheck check{.name = name, .passed = true};
  double worst = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(expected[i] - found.values[i]);
    const double allowed = tolerance(i);
    const double ratio = std::isnan(difference) ? INFINITY
                         : allowed > 0          ? difference / allowed
                         : difference > 0       ? INFINITY
                                                : 0;
    if (ratio <= worst) continue;
    worst = ratio;
    check.error = difference / scale;
    check.tolerance = allowed / scale;
    check.detail = fmt::format("entry {}: expected {:.9g}, found {:.9g}", i, expected[i], found.values[i]);
  }
  check.passed = !(worst > 1);
  return check;
}

bool is_input(const std::string& name) {
  return name == "input_ids" || name == "targets";
}

// Returns true if a golden file was computed in fp64. Nearly all values of such a file agree with the fp64
// results of this program to the last bit, and a value that does not agree is wrong. If a golden file was
// computed in fp32, most of its values differ slightly from fp64 results.
bool is_exact_golden(const SafetensorsFile& golden, const ComputedSet& exact) {
  constexpr double kShare = 0.9;
  constexpr double kLastBit = 1.2e-7;  // 2^-23
  int64_t values = 0, agreeing = 0;
  for (const TensorInfo& tensor : golden.tensors()) {
    const auto found = exact.find(tensor.name);
    if (is_input(tensor.name) || found == exact.end() || found->second.shape != tensor.shape) continue;
    const std::vector<double> expected = read_values(tensor);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == 0 && found->second.values[i] == 0)
        continue;  // masked attention weights are zero in any precision
      const double difference = std::abs(expected[i] - found->second.values[i]);
      agreeing += difference <= kLastBit * std::abs(expected[i]) + 1e-15;
      ++values;
    }
  }
  return static_cast<double>(agreeing) >= kShare * static_cast<double>(values);
}

VerifyCheck missing(const std::string& name, const std::string& why) {
  return {.name = name, .error = INFINITY, .tolerance = 0, .passed = false, .detail = why};
}

void write_computed(const std::string& path, const ComputedSet& computed) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : computed) {
    tensors.push_back({name, tensor.integer ? DType::i64 : DType::f32, tensor.shape,
                       [&tensor = tensor](const EmitBytes& emit) {
                         if (tensor.integer) {
                           const std::vector<int64_t> ids(tensor.values.begin(), tensor.values.end());
                           emit(std::as_bytes(std::span(ids)));
                         } else {
                           const std::vector<float> values(tensor.values.begin(), tensor.values.end());
                           emit(std::as_bytes(std::span(values)));
                         }
                       }});
  }
  write_safetensors(path, tensors, {{"written_by", "gpt verify"}});
}

double cost(const LoadedModel& loaded, const GoldenInputs& inputs) {
  return static_cast<double>(loaded.model().table.total()) * static_cast<double>(inputs.ids.size()) * 16;
}

}  // namespace

bool VerifyResult::passed() const {
  return !checks.empty() && std::ranges::all_of(checks, [](const VerifyCheck& c) { return c.passed; });
}

VerifyResult verify_model(const std::string& model_path, const VerifyOptions& options) {
  const SafetensorsFile golden(options.golden);
  const GoldenInputs inputs = read_inputs(golden);
  bool incremental_equal = false, unused = false;
  const ComputedSet computed = compute_golden(model_path, inputs, options.dtype, options.isa, options.threads,
                                              incremental_equal, options.backend);
  if (!options.write.empty()) write_computed(options.write, computed);

  VerifyResult result;
  const LoadedModel loaded(model_path);
  ComputedSet exact;
  if (options.dtype == DType::f64) {
    exact = computed;
  } else if (cost(loaded, inputs) <= kExactLimit) {
    exact =
        compute_golden(model_path, inputs, DType::f64, Isa::ref, options.threads, unused, options.backend);
  }
  const bool strict = !exact.empty() && is_exact_golden(golden, exact);
  result.exact_note =
      exact.empty() ? "the model is too large to recompute the golden values in fp64"
      : strict ? "all golden values were also compared with fp64 results, with a tolerance for fp32 rounding"
               : "the golden values were computed in fp32, so they were not also compared with fp64 "
                 "results";
  const double norm_eps = loaded.model().config.norm_eps;
  const std::map<std::string, double> floors = key_bias_floors(loaded, golden);
  std::optional<HalfTolerance> half;
  if (options.dtype == DType::bf16 || options.dtype == DType::f16) half.emplace(options.bf16_errors);
  for (const TensorInfo& tensor : golden.tensors()) {
    if (is_input(tensor.name)) continue;
    const auto found = computed.find(tensor.name);
    if (found == computed.end()) {
      result.checks.push_back(
          missing(tensor.name, "the golden file has a tensor that this model does not compute"));
      continue;
    }
    if (found->second.shape != tensor.shape) {
      result.checks.push_back(
          missing(tensor.name, fmt::format("expected shape {}, computed {}", shape_string(tensor.shape),
                                           shape_string(found->second.shape))));
      continue;
    }
    if (half && !HalfTolerance::compares(tensor.name)) continue;
    const std::vector<double> expected = read_values(tensor);
    const Tolerance tolerance(tensor.name, expected, golden, floors, norm_eps);
    const double half_tolerance = half ? half->at(tensor.name, expected) : 0;
    VerifyCheck check = compare(tensor.name, expected, found->second, tolerance.scale(),
                                [&](size_t i) { return half ? half_tolerance : tolerance.at(i); });
    if (check.passed && strict) {
      VerifyCheck in_fp64 = compare(tensor.name, expected, exact.at(tensor.name), 1,
                                    [&](size_t i) { return exact_tolerance(tensor.name, expected[i]); });
      in_fp64.detail = "in fp64, " + in_fp64.detail;
      if (!in_fp64.passed) check = in_fp64;
    }
    result.checks.push_back(check);
  }
  if (result.checks.empty())
    fail("{}: expected tensors to compare in addition to the token ids, found none", options.golden);
  result.checks.push_back({.name = "incremental = full, bit for bit", .passed = incremental_equal});
  return result;
}

}  // namespace gpt

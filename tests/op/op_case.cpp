#include "op/op_case.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "support/random.h"
#include "tensor/half.h"

namespace gpt::testing {
namespace {

constexpr int64_t kGuard = 64;  // elements before and after every tensor

uint64_t hash(const std::string& s) {
  uint64_t h = 14695981039346656037ull;
  for (char c : s)
    h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

void put(std::byte* at, DType dtype, double value) {
  const auto copy = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::f64:
      return copy(value);
    case DType::bf16:
      return copy(to_bf16(narrow));
    case DType::f16:
      return copy(to_f16(narrow));
    default:
      return copy(narrow);
  }
}

template <class T>
T take(const std::byte* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

double rounded(float x, DType dtype) {
  if (dtype == DType::bf16) return to_float(to_bf16(x));
  if (dtype == DType::f16) return to_float(to_f16(x));
  return x;
}

// Adds the error of rounding a result to the dtype that it is stored in.
Tolerance stored_as(DType dtype, Tolerance t) {
  if (dtype == DType::bf16) return {t.absolute, t.relative + 0x1p-8};
  if (dtype == DType::f16) return {t.absolute + 0x1p-24, t.relative + 0x1p-11};
  return t;
}

bool close(double got, double want, Tolerance t) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= t.absolute + t.relative * std::abs(want);
}

// Caches the random input tensors of the latest case. Random generation takes longer than most ops, and a
// case runs a dozen times in succession.
struct Drawn {
  std::string seed;
  std::map<size_t, std::vector<float>> tensors;
};

const std::vector<float>& drawn(const std::string& seed, size_t tensor, int64_t n, const Fill& fill,
                                RandomStream random) {
  static Drawn latest;
  if (latest.seed != seed) latest = {seed, {}};
  std::vector<float>& values = latest.tensors[tensor];
  if (std::ssize(values) == n) return values;
  values.clear();
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<float>(fill(i, random)));
  return values;
}

}  // namespace

Fill normal_values(double std, double mean) {
  return [=](int64_t, RandomStream& random) { return mean + std * test::bell(random); };
}

Fill uniform_values(double low, double high) {
  return [=](int64_t, RandomStream& random) { return low + (high - low) * random.uniform(); };
}

Fill constant_values(double value) {
  return [=](int64_t, RandomStream&) { return value; };
}

Fill with_specials(Fill fill) {
  return [fill = std::move(fill)](int64_t i, RandomStream& random) {
    const double value = fill(i, random);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (i % 29 == 3) return std::numeric_limits<double>::quiet_NaN();
    if (i % 29 == 11) return kInfinity;
    if (i % 29 == 20) return -kInfinity;
    return value;
  };
}

Tolerance relative(double n) {
  return {.absolute = 0, .relative = n * kEpsilon};
}

Tolerance sum_of(int64_t terms, double size) {
  return {.absolute = 4 * kEpsilon * size * static_cast<double>(terms + 4), .relative = 4 * kEpsilon};
}

OpFrame::OpFrame(const Setup& setup, const std::string& seed) : setup_(setup), seed_(seed) {}

RandomStream OpFrame::stream(size_t i) const {
  return {hash(seed_), RandomSite::test, 0, i};
}

double OpFrame::Tensor::at(int64_t r, int64_t c) const {
  const std::byte* p = address(r, c);
  switch (dtype) {
    case DType::f64:
      return take<double>(p);
    case DType::bf16:
      return to_float(take<bf16>(p));
    case DType::f16:
      return to_float(take<f16>(p));
    case DType::i8:
      return take<int8_t>(p);
    default:
      return take<float>(p);
  }
}

const std::byte* OpFrame::Tensor::address(int64_t r, int64_t c) const {
  return memory.data() + first + static_cast<size_t>(r * ld + c) * dtype_size(dtype);
}

TensorView OpFrame::make(Role role, DType dtype, std::initializer_list<int64_t> shape, Tolerance tolerance,
                         int64_t ld_extra, const Fill& fill, DType precision) {
  const TensorView like = make_view(nullptr, dtype, shape);
  Tensor& t = tensors_.emplace_back();
  t.role = role;
  t.dtype = dtype;
  t.tolerance = tolerance;
  t.rows = like.rows();
  t.cols = like.cols();
  t.ld = t.cols + ld_extra;
  const int64_t guard = setup_.guards ? kGuard : 0;
  const int64_t payload = t.rows > 0 ? (t.rows - 1) * t.ld + t.cols : 0;
  const size_t unit = dtype_size(dtype);
  const auto total = static_cast<size_t>(payload + 2 * guard + setup_.misalign) * unit;
  t.memory.assign(total, std::byte{0xFF});  // NaN
  t.first = static_cast<size_t>(guard + setup_.misalign) * unit;
  if (fill) {
    const std::vector<float>& values =
        drawn(seed_, tensors_.size(), t.rows * t.cols, fill, stream(tensors_.size()));
    for (int64_t i = 0; i < std::ssize(values); ++i)
      put(const_cast<std::byte*>(t.address(i / t.cols, i % t.cols)), dtype,
          rounded(values[static_cast<size_t>(i)], precision));
  }
  t.original = t.memory;
  // An empty tensor still counts as present, so its address must not be null.
  static double nowhere;
  void* data = t.memory.empty() ? static_cast<void*>(&nowhere) : t.memory.data() + t.first;
  TensorView v = make_view(data, dtype, shape);
  v.ld = t.ld;
  return v;
}

TensorView OpFrame::input(std::initializer_list<int64_t> shape, const Fill& fill, int64_t ld_extra) {
  return make(Role::input, setup_.dtype, shape, {}, ld_extra, fill);
}

TensorView OpFrame::output(std::initializer_list<int64_t> shape, Tolerance tolerance, int64_t ld_extra) {
  return output_of(setup_.dtype, shape, tolerance, ld_extra);
}

TensorView OpFrame::inout(std::initializer_list<int64_t> shape, const Fill& fill, Tolerance tolerance,
                          int64_t ld_extra) {
  return make(Role::inout, setup_.dtype, shape, tolerance, ld_extra, fill);
}

TensorView OpFrame::act_input(std::initializer_list<int64_t> shape, const Fill& fill, int64_t ld_extra) {
  has_activations_ = true;
  return make(Role::input, act(), shape, {}, ld_extra, fill, setup_.act);
}

TensorView OpFrame::act_output(std::initializer_list<int64_t> shape, Tolerance tolerance, int64_t ld_extra) {
  has_activations_ = true;
  return output_of(act(), shape, stored_as(setup_.act, tolerance), ld_extra);
}

TensorView OpFrame::act_inout(std::initializer_list<int64_t> shape, const Fill& fill, Tolerance tolerance,
                              int64_t ld_extra) {
  has_activations_ = true;
  return make(Role::inout, act(), shape, stored_as(setup_.act, tolerance), ld_extra, fill, setup_.act);
}

TensorView OpFrame::output_of(DType dtype, std::initializer_list<int64_t> shape, Tolerance tolerance,
                              int64_t ld_extra) {
  return make(Role::output, dtype, shape, tolerance, ld_extra, nullptr);
}

CaseArray<double> OpFrame::output_doubles(int64_t n, Tolerance tolerance) {
  return {output_of(DType::f64, {n}, tolerance).as<double>(), static_cast<size_t>(n)};
}

CaseArray<int32_t> OpFrame::ints(int64_t n, int64_t low, int64_t high) {
  std::vector<int32_t>& v = ints_.emplace_back(static_cast<size_t>(n));
  RandomStream random = stream(1000 + ints_.size());
  for (int32_t& x : v) {
    x = static_cast<int32_t>(low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1))));
  }
  return array_of(v);
}

CaseArray<int64_t> OpFrame::longs(std::vector<int64_t> values) {
  return array_of(longs_.emplace_back(std::move(values)));
}

void OpFrame::poison(const Workspace& workspace) const {
  const Scratch scratch = workspace.scratch();
  if (workspace.bytes() > 0) std::memset(scratch.shared, 0xFF, static_cast<size_t>(workspace.bytes()));
}

std::string OpFrame::damage() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = tensors_[i];
    std::vector<std::byte> expected = t.original;
    if (t.role != Role::input) {
      const size_t bytes = static_cast<size_t>(t.cols) * dtype_size(t.dtype);
      for (int64_t r = 0; r < t.rows && bytes > 0; ++r) {
        std::memcpy(expected.data() + (t.address(r, 0) - t.memory.data()), t.address(r, 0), bytes);
      }
    }
    if (expected == t.memory) continue;
    size_t at = 0;
    while (expected[at] == t.memory[at])
      ++at;
    const auto unit = static_cast<int64_t>(dtype_size(t.dtype));
    return fmt::format("tensor {} ({}): element {} (rows {} cols {} ld {}) was overwritten", i,
                       t.role == Role::input ? "input" : "output",
                       (static_cast<int64_t>(at) - static_cast<int64_t>(t.first)) / unit, t.rows, t.cols,
                       t.ld);
  }
  return {};
}

std::string OpFrame::difference(const OpFrame& want) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = tensors_[i];
    if (t.role == Role::input) continue;
    for (int64_t r = 0; r < t.rows; ++r) {
      for (int64_t c = 0; c < t.cols; ++c) {
        const double g = t.at(r, c), w = want.tensors_[i].at(r, c);
        if (close(g, w, t.tolerance)) continue;
        return fmt::format(
            "tensor {} [{},{}] of [{},{}]: got {:.9g}, want {:.9g}, error {:.3g}, allowed {:.3g}", i, r, c,
            t.rows, t.cols, g, w, std::abs(g - w), t.tolerance.absolute + t.tolerance.relative * std::abs(w));
      }
    }
  }
  return {};
}

std::string OpFrame::bit_difference(const OpFrame& other) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = tensors_[i];
    const size_t bytes = static_cast<size_t>(t.cols) * dtype_size(t.dtype);
    if (t.role == Role::input || bytes == 0) continue;
    for (int64_t r = 0; r < t.rows; ++r) {
      if (std::memcmp(t.address(r, 0), other.tensors_[i].address(r, 0), bytes) == 0) continue;
      return fmt::format("tensor {} row {} of [{},{}] has other bits", i, r, t.rows, t.cols);
    }
  }
  return {};
}

std::vector<RegisteredOp>& registered_ops() {
  static std::vector<RegisteredOp> ops;
  return ops;
}

bool register_op(const char* op, OpCaseFunction cases) {
  registered_ops().push_back({op, cases});
  return true;
}

}  // namespace gpt::testing

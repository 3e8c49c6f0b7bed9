#pragma once

// Compares analytic gradients with central differences (f(x+h) - f(x-h)) / 2h in double.
//
// The error of a central difference is h^2/6 |f'''| + eps |f| / h, where eps is the relative error of f. The
// step is h = 1e-5. All functions here are smooth and have inputs of order one, so third derivatives are of
// order ten. For sums of a few thousand products, eps is 1e-15. The error is then 2e-10 + 1e-10 |f|. A wrong
// gradient element is off by about its own size. The tolerance is 1e-6 of the largest element of the tensor,
// plus 1e-8 (1 + |f|) for tensors whose gradients all vanish. This tolerance is far from both the numerical
// error and the error of a wrong gradient.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tensor/tensor.h"

namespace gpt::test {

struct Variable {
  std::string name;
  TensorView value;          // fp64; read by the loss
  std::vector<double> grad;  // dense, row-major
};

inline std::vector<double> copy_values(const TensorView& v) {
  std::vector<double> out;
  for (int64_t r = 0; r < v.rows(); ++r)
    out.insert(out.end(), v.row<double>(r), v.row<double>(r) + v.cols());
  return out;
}

class GradientCheck {
 public:
  static constexpr double kStep = 1e-5;

  GradientCheck(std::function<double()> loss, uint64_t seed)
      : loss_(std::move(loss)), random_(seed, RandomSite::test) {
    base_ = std::abs(loss_());
  }

  // Checks every element of small variables and `sampled` random elements of larger ones. Then checks the
  // derivative along one random direction in the space of all variables.
  void run(const std::vector<Variable>& variables, int64_t sampled = 48) {
    for (const Variable& v : variables) {
      ASSERT_EQ(v.value.size(), static_cast<int64_t>(v.grad.size())) << v.name;
      const bool all = v.value.size() <= 2 * sampled;
      for (int64_t i = 0; i < (all ? v.value.size() : sampled); ++i) {
        const int64_t at =
            all ? i : static_cast<int64_t>(random_.below(static_cast<uint64_t>(v.value.size())));
        check_element(v, at);
      }
    }
    check_direction(variables);
  }

 private:
  static double* element(const Variable& v, int64_t i) {
    return v.value.row<double>(i / v.value.cols()) + i % v.value.cols();
  }
  static double largest(const Variable& v) {
    double top = 0;
    for (double g : v.grad)
      top = std::max(top, std::abs(g));
    return top;
  }
  double tolerance(double scale) const { return 1e-6 * scale + 1e-8 * (1 + base_); }

  void check_element(const Variable& v, int64_t i) {
    double* x = element(v, i);
    const double kept = *x;
    *x = kept + kStep;
    const double above = loss_();
    *x = kept - kStep;
    const double below = loss_();
    *x = kept;
    EXPECT_NEAR((above - below) / (2 * kStep), v.grad[static_cast<size_t>(i)], tolerance(largest(v)))
        << v.name << " element " << i;
  }

  void check_direction(const std::vector<Variable>& variables) {
    std::vector<double> direction;
    double expected = 0, scale = 0;
    for (const Variable& v : variables) {
      for (double g : v.grad) {
        direction.push_back(random_.normal());
        expected += g * direction.back();
        scale += std::abs(g * direction.back());
      }
    }
    // The direction changes all elements together, which makes a longer step. Dividing h by sqrt(n) restores
    // its length.
    const double h = kStep / std::sqrt(static_cast<double>(direction.size()));
    const auto move = [&](double by) {
      size_t at = 0;
      for (const Variable& v : variables) {
        for (int64_t i = 0; i < v.value.size(); ++i)
          *element(v, i) += by * direction[at++];
      }
    };
    std::vector<std::vector<double>> kept;
    for (const Variable& v : variables)
      kept.push_back(copy_values(v.value));
    const auto restore = [&] {
      for (size_t n = 0; n < variables.size(); ++n) {
        for (int64_t i = 0; i < variables[n].value.size(); ++i)
          *element(variables[n], i) = kept[n][static_cast<size_t>(i)];
      }
    };
    move(h);
    const double above = loss_();
    restore();
    move(-h);
    const double below = loss_();
    restore();
    EXPECT_NEAR((above - below) / (2 * h), expected, 1e-6 * scale + 1e-7 * (1 + base_)) << "random direction";
  }

  std::function<double()> loss_;
  RandomStream random_;
  double base_ = 0;
};

}  // namespace gpt::test

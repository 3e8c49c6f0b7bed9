#pragma once

#include <cstddef>
#include <vector>

namespace gpt {

// How unusual a number is among the last kWindow ones: (x - mean) / standard deviation, and 0 until
// there are enough to tell.
class OutlierDetector {
 public:
  static constexpr size_t kWindow = 128;

  double z_score(double x) const;
  void add(double x);  // call for values that were not skipped

  const std::vector<double>& history() const { return history_; }
  void restore(std::vector<double> history) { history_ = std::move(history); }

 private:
  std::vector<double> history_;  // oldest first
};

}  // namespace gpt

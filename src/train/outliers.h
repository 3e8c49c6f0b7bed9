#pragma once

#include <cstddef>
#include <vector>

namespace gpt {

// Tells what is unusual after the last kWindow numbers.
class OutlierDetector {
 public:
  static constexpr size_t kWindow = 128;

  // The mean and z standard deviations; infinity until there are enough numbers to tell, or if they are all equal.
  double limit(double z) const;
  void add(double x);  // call for values that were not skipped

  const std::vector<double>& history() const { return history_; }
  void restore(std::vector<double> history) { history_ = std::move(history); }

 private:
  std::vector<double> history_;  // oldest first
};

}  // namespace gpt

#include "train/outliers.h"

#include <cmath>
#include <limits>

namespace gpt {

double OutlierDetector::limit(double z) const {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (history_.size() < kWindow) return kNone;
  double mean = 0, variance = 0;
  for (double h : history_)
    mean += h;
  mean /= static_cast<double>(history_.size());
  for (double h : history_)
    variance += (h - mean) * (h - mean);
  const double deviation = std::sqrt(variance / static_cast<double>(history_.size()));
  return deviation > 0 ? mean + z * deviation : kNone;
}

void OutlierDetector::add(double x) {
  if (history_.size() == kWindow) history_.erase(history_.begin());
  history_.push_back(x);
}

}  // namespace gpt

#include "train/outliers.h"

#include <cmath>

namespace gpt {

double OutlierDetector::z_score(double x) const {
  if (history_.size() < kWindow) return 0;
  double mean = 0, variance = 0;
  for (double h : history_)
    mean += h;
  mean /= static_cast<double>(history_.size());
  for (double h : history_)
    variance += (h - mean) * (h - mean);
  const double deviation = std::sqrt(variance / static_cast<double>(history_.size()));
  return deviation > 0 ? (x - mean) / deviation : 0;
}

void OutlierDetector::add(double x) {
  if (history_.size() == kWindow) history_.erase(history_.begin());
  history_.push_back(x);
}

}  // namespace gpt

#include "report/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpt {
namespace {

// Returns the smallest number >= raw that is 1, 2 or 5 times a power of ten.
double nice_step(double raw) {
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Formats a value as "3e-4", where fmt writes 3e-04.
std::string scientific(double value, int decimals) {
  std::string text = fmt::format("{:.{}e}", value, decimals);
  const size_t digits = text.find('e') + 2;
  while (digits + 1 < text.size() && text[digits] == '0')
    text.erase(digits, 1);
  if (text[digits - 1] == '+') text.erase(digits - 1, 1);
  return text;
}

// Returns a label with enough digits to distinguish it from the labels of neighbouring ticks, which are
// `step` apart.
std::string tick_label(double value, double step) {
  const double size = std::abs(value);
  if (size < step * 1e-6) return "0";
  if (size >= 1e12 || step < 1e-4) {
    const int decimals =
        static_cast<int>(std::floor(std::log10(size)) - std::floor(std::log10(step * 1.000001)));
    return scientific(value, std::clamp(decimals, 0, 6));
  }
  double scale = 1;
  const char* unit = "";
  if (size >= 1e4 && step >= 10) {
    scale = size >= 1e9 ? 1e9 : size >= 1e6 ? 1e6 : 1e3;
    unit = size >= 1e9 ? "G" : size >= 1e6 ? "M" : "k";
  }
  // Write only the digits that the value needs: 1.5M next to 2M, but 2.0 next to 2.5.
  const double scaled_step = step / scale;
  int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(scaled_step) - 1e-9)), 0, 6);
  if (scale > 1 && std::abs(std::round(value / scale) * scale - value) < step * 1e-6) decimals = 0;
  return fmt::format("{:.{}f}{}", value / scale, decimals, unit);
}

std::string log_tick_label(double value) {
  if (value < 1e-3 || value >= 1e6) return scientific(value, 0);
  if (value >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", value);
}

}  // namespace

double smoothing_window(double span) {
  constexpr double kSlider = 0.33;  // first position of the page's slider: src/report/page/chart.js
  return 0.15 * kSlider * kSlider * span;
}

std::vector<double> smoothed(std::span<const double> x, std::span<const double> y, double window) {
  if (!(window > 0)) return {y.begin(), y.end()};
  const size_t n = y.size();
  const auto decay = [&](size_t from, size_t to) {
    return std::exp(std::min(0.0, x[from] - x[to]) / window);
  };
  // sums[i] and weights[i] are the decaying sums of the values and of their weights, from the last index down
  // to i.
  std::vector<double> sums(n + 1, 0), weights(n + 1, 0), out(n);
  for (size_t i = n; i-- > 0;) {
    const bool present = std::isfinite(y[i]);
    const double keep = i + 1 < n ? decay(i, i + 1) : 0;
    sums[i] = keep * sums[i + 1] + (present ? y[i] : 0);
    weights[i] = keep * weights[i + 1] + (present ? 1 : 0);
  }
  double sum = 0, weight = 0;  // over the values before index i
  size_t beyond = 0;           // first index that is further from i than index 0 is
  for (size_t i = 0; i < n; ++i) {
    const bool present = std::isfinite(y[i]);
    const double keep = i > 0 ? decay(i - 1, i) : 0;
    sum *= keep;
    weight *= keep;
    while (beyond < n && (beyond <= i || x[beyond] - x[i] <= x[i] - x[0]))
      ++beyond;
    const double rest = beyond < n ? decay(i, beyond) : 0;
    const double ahead = sums[i] - rest * sums[beyond], weight_ahead = weights[i] - rest * weights[beyond];
    out[i] = present ? (sum + ahead) / (weight + weight_ahead) : std::numeric_limits<double>::quiet_NaN();
    sum += present ? y[i] : 0;
    weight += present ? 1 : 0;
  }
  return out;
}

std::vector<Tick> linear_ticks(double low, double high, int target, bool integers) {
  // If the step were smaller than the spacing of doubles, neighbouring ticks would have equal values.
  const double resolution = std::max(std::max(std::abs(low), std::abs(high)) * 1e-15, 1e-300);
  double step = nice_step(std::max(high / target - low / target, resolution));
  if (integers) step = std::max(step, 1.0);
  std::vector<Tick> ticks;
  const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  // The ticks are counted in advance. If step is near the spacing of doubles, repeated addition might never
  // end.
  const int count = static_cast<int>(std::clamp(last - first, -1.0, 2.0 * target)) + 1;
  for (int i = 0; i < count; ++i) {
    const double value = (first + i) * step;
    ticks.push_back({value, tick_label(value, step)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high, int target) {
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  const double decades = std::log10(high) - std::log10(low);
  const double stride = std::max(1.0, std::ceil(decades / target));
  const bool between = decades <= target / 2.0;
  std::vector<Tick> ticks;
  for (double exponent = first; exponent <= last; exponent += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, exponent);
      if (factor > 1 && !between) break;
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) {
        ticks.push_back({value, log_tick_label(value)});
      }
    }
  }
  return ticks.size() >= 3 || decades > 2 ? ticks : linear_ticks(low, high, target, false);
}

}  // namespace gpt

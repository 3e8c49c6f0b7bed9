#pragma once

#include <chrono>

namespace gpt {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs `work` and returns its duration in seconds.
template <class F>
double timed(F&& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

}  // namespace gpt

#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>

namespace gpt::test {

// The timeout for events that always happen unless there is a bug. With this timeout, a bug makes its own
// test fail before the whole test binary reaches its time limit. The timeout is much longer than a sanitizer
// build on a busy machine needs.
inline constexpr std::chrono::seconds kPatience{300};

// Waits until a condition holds. Returns false if it still does not after kPatience.
inline bool wait_until(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Waits for the value of a promise and returns it. Throws if the promise has no value after kPatience.
template <class T>
T value_of(std::promise<T>& promise) {
  std::future<T> future = promise.get_future();
  if (future.wait_for(kPatience) != std::future_status::ready)
    throw std::runtime_error("a promise was not kept");
  return future.get();
}

}  // namespace gpt::test

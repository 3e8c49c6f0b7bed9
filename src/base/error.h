#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace gpt {

// What a user can cause: bad input, bad files, a full disk. The message names the object, what was
// expected, what was found and what to do. Caught in main (exit 1).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A wrong flag or configuration key (exit 2).
class UsageError : public Error {
 public:
  using Error::Error;
};

template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> format, A&&... args) {
  throw Error(fmt::format(format, std::forward<A>(args)...));
}

template <class... A>
[[noreturn]] void fail_usage(fmt::format_string<A...> format, A&&... args) {
  throw UsageError(fmt::format(format, std::forward<A>(args)...));
}

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}

// For mistakes of the programmer only: no input may reach a failing assertion.
#define GPT_ASSERT(condition) \
  ((condition) ? void(0) : ::gpt::detail::assertion_failed(#condition, __FILE__, __LINE__))

}  // namespace gpt

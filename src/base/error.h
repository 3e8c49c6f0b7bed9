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

// A wrong parameter: a flag or configuration key of the program (exit 2), an option of the library.
class UsageError : public Error {
 public:
  using Error::Error;
  // what() is "PARAMETER: MESSAGE", which the command line shows as its flag.
  UsageError(std::string parameter, const std::string& message)
      : Error(parameter + ": " + message), parameter_(std::move(parameter)) {}
  // Its name, with underscores; "" where the message names it in another way.
  const std::string& parameter() const { return parameter_; }

 private:
  std::string parameter_;
};

template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> format, A&&... args) {
  throw Error(fmt::format(format, std::forward<A>(args)...));
}

template <class... A>
[[noreturn]] void fail_usage(fmt::format_string<A...> format, A&&... args) {
  throw UsageError(fmt::format(format, std::forward<A>(args)...));
}

template <class... A>
[[noreturn]] void fail_parameter(const char* parameter, fmt::format_string<A...> format, A&&... args) {
  throw UsageError(parameter, fmt::format(format, std::forward<A>(args)...));
}

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}

// For mistakes of the programmer only: no input may reach a failing assertion.
#define GPT_ASSERT(condition) \
  ((condition) ? void(0) : ::gpt::detail::assertion_failed(#condition, __FILE__, __LINE__))

}  // namespace gpt

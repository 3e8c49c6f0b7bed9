#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace gpt {

// The numbers of gpt_status in gpt/gpt.h.
enum class ErrorCode : uint8_t {
  invalid_argument = 1,  // a wrong parameter: a flag or configuration key of the program, an option
  not_found = 2,         // a file or folder that does not exist
  io = 3,                // a file or text that cannot be read or written, is damaged or does not fit
  out_of_memory = 4,     // memory that does not suffice
  cancelled = 5,
  unsupported = 6,  // a feature that this version, model or machine does not have
  internal = 7      // a mistake in the program
};

// What a user can cause: bad input, bad files, a full disk. Caught in main: exit status 2 for
// invalid_argument, else 1.
//
// A message has the form `OBJECT: expected EXPECTED, found FOUND; HINT`. The fields are the parts of the
// *format* between its separators, so that no argument shifts them, and "" where a message lacks them:
//   fail("{}: expected {} bytes, found {}; download it again", path, 8, 7)
// has the object "a.bin", expected "8 bytes", found "7", hint "download it again". The object also ends
// before " is " and " has ", and "cannot read {}: ..." has only the path. Settings are named in backquotes,
// as `n_head`; the command line shows these as flags.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorCode code = ErrorCode::io);
  // The object of invalid_argument is the parameter, "" if the format names it in another way. With a
  // parameter the message begins with it.
  Error(ErrorCode code, std::string_view parameter, fmt::string_view format, fmt::format_args args);

  ErrorCode code() const { return code_; }
  // What the message is about. Of invalid_argument: the name of a parameter, with underscores.
  const std::string& object() const { return object_; }
  const std::string& expected() const { return expected_; }
  const std::string& found() const { return found_; }
  const std::string& hint() const { return hint_; }  // what to do

  // Takes the fields that this error lacks from the error that caused it, except for the object.
  void complete_from(const Error& cause);

 private:
  ErrorCode code_;
  std::string object_, expected_, found_, hint_;
};

namespace detail {
[[noreturn]] void throw_error(ErrorCode code, std::string_view parameter, fmt::string_view format,
                              fmt::format_args args);
[[noreturn]] void throw_caused(const Error& cause, fmt::string_view format, fmt::format_args args);
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}  // namespace detail

// Something cannot be read or written, or is not what it must be.
template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> format, A&&... args) {
  detail::throw_error(ErrorCode::io, "", format, fmt::make_format_args(args...));
}

template <class... A>
[[noreturn]] void fail_not_found(fmt::format_string<A...> format, A&&... args) {
  detail::throw_error(ErrorCode::not_found, "", format, fmt::make_format_args(args...));
}

template <class... A>
[[noreturn]] void fail_unsupported(fmt::format_string<A...> format, A&&... args) {
  detail::throw_error(ErrorCode::unsupported, "", format, fmt::make_format_args(args...));
}

template <class... A>
[[noreturn]] void fail_memory(fmt::format_string<A...> format, A&&... args) {
  detail::throw_error(ErrorCode::out_of_memory, "", format, fmt::make_format_args(args...));
}

template <class... A>
[[noreturn]] void fail_usage(fmt::format_string<A...> format, A&&... args) {
  detail::throw_error(ErrorCode::invalid_argument, "", format, fmt::make_format_args(args...));
}

template <class... A>
[[noreturn]] void fail_parameter(std::string_view parameter, fmt::format_string<A...> format, A&&... args) {
  detail::throw_error(ErrorCode::invalid_argument, parameter, format, fmt::make_format_args(args...));
}

// Adds to the message of a caught error, which is among the arguments, and keeps its code and fields. An
// invalid_argument becomes io: the parameter was read from a file.
template <class... A>
[[noreturn]] void fail_because(const Error& cause, fmt::format_string<A...> format, A&&... args) {
  detail::throw_caused(cause, format, fmt::make_format_args(args...));
}

// For mistakes of the programmer only: no input may reach a failing assertion.
#define GPT_ASSERT(condition) \
  ((condition) ? void(0) : ::gpt::detail::assertion_failed(#condition, __FILE__, __LINE__))

}  // namespace gpt

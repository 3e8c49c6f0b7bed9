#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace gpt {

// The values must be the same as in gpt_status in gpt/gpt.h.
enum class ErrorCode : uint8_t {
  invalid_argument = 1,  // a wrong value of a flag, config key or option
  not_found = 2,         // a file or folder does not exist
  io = 3,                // a file or text cannot be read or written, is damaged or does not match
  out_of_memory = 4,     // not enough memory
  cancelled = 5,
  unsupported = 6,  // a feature that this version, model or machine does not support
  internal = 7      // a bug in the program
};

// An error that input can cause: bad options, bad files, a full disk. main catches it and exits with status 2
// for invalid_argument, else 1.
//
// A message has the form `OBJECT: expected EXPECTED, found FOUND; HINT`; every part is optional. The fields
// are split at the separators of the *format*, so separators in an argument do not matter:
//   fail("{}: expected {} bytes, found {}; download it again", path, 8, 7)
// has the object "a.bin", expected "8 bytes", found "7", hint "download it again". A missing part is "". The
// separators " is " and " has " end the object too: the object of "a.bin is damaged" is "a.bin". The object
// of "cannot read {}: ..." is only the path.
//
// A message can name a setting in two forms. The command line replaces `n_head` in backquotes by --n-head. It
// replaces `config key "n_head"` by the source of the value: the flag as the user typed it, or an environment
// variable.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorCode code = ErrorCode::io);
  // parameter: prefix of the message and object of an invalid_argument error. An invalid_argument error
  // without a parameter has no object, whatever its format.
  Error(ErrorCode code, std::string_view parameter, fmt::string_view format, fmt::format_args args);
  // Creates an invalid_argument error for a config key.
  static Error of_key(std::string_view key, fmt::string_view format, fmt::format_args args);

  ErrorCode code() const { return code_; }
  // The path or other subject of the message. For invalid_argument: the parameter's name (top_k), or "".
  const std::string& object() const { return object_; }
  const std::string& expected() const { return expected_; }
  const std::string& found() const { return found_; }
  const std::string& hint() const { return hint_; }  // what the user can do

  // Copies expected, found and hint from `cause` if this error lacks them. Keeps the object.
  void complete_from(const Error& cause);

 private:
  ErrorCode code_;
  std::string object_, expected_, found_, hint_;
};

namespace detail {
[[noreturn]] void throw_error(ErrorCode code, std::string_view parameter, fmt::string_view format,
                              fmt::format_args args);
[[noreturn]] void throw_key_error(std::string_view key, fmt::string_view format, fmt::format_args args);
[[noreturn]] void throw_caused(const Error& cause, fmt::string_view format, fmt::format_args args);
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}  // namespace detail

// Throws Error with the code io, for files that cannot be read or written and for input in an unexpected
// form.
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

// Throws invalid_argument with the message `config key "KEY": ...` and the object KEY. If the key was read
// from a file, fail_because changes the code to io. The command line shows the flag or variable that set the
// key.
template <class... A>
[[noreturn]] void fail_key(std::string_view key, fmt::format_string<A...> format, A&&... args) {
  detail::throw_key_error(key, format, fmt::make_format_args(args...));
}

// Rethrows a caught error with a new message and object. Keeps the code of the caught error, except that
// invalid_argument becomes io, because the parameter was read from a file. Keeps expected, found and hint of
// the caught error if the new message has none. Pass cause.what() among the arguments.
template <class... A>
[[noreturn]] void fail_because(const Error& cause, fmt::format_string<A...> format, A&&... args) {
  detail::throw_caused(cause, format, fmt::make_format_args(args...));
}

// Throws std::logic_error. For bugs only: no input may make an assertion fail.
#define GPT_ASSERT(condition) \
  ((condition) ? void(0) : ::gpt::detail::assertion_failed(#condition, __FILE__, __LINE__))

}  // namespace gpt

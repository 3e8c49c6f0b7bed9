#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace gpt {
namespace {

// A format string with numbered placeholders, so that parts of it can be formatted separately.
struct NumberedFormat {
  std::string text;
  std::string plain;  // the text with '\0' for every character of a placeholder or escaped brace
};

NumberedFormat numbered(std::string_view format) {
  NumberedFormat out;
  int depth = 0, next = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const char c = format[at], after = at + 1 < format.size() ? format[at + 1] : '\0';
    if (c != '{' && c != '}') {
      out.text += c;
      out.plain += depth == 0 ? c : '\0';
      continue;
    }
    out.text += c;
    if (depth == 0 && after == c) {
      out.text += format[++at];
    } else if (c == '{') {
      ++depth;
      if (after == '}' || after == ':') out.text += std::to_string(next++);
    } else {
      --depth;
    }
    out.plain.resize(out.text.size(), '\0');
  }
  return out;
}

// Finds the parts of a message (object, expected, found, hint) in its format string.
class Parts {
 public:
  Parts(fmt::string_view format, fmt::format_args args)
      : format_(numbered({format.data(), format.size()})), plain_(format_.plain), args_(args) {
    const size_t hint = plain_.rfind("; ");
    end_ = std::min(hint, plain_.size());
  }

  std::string object() const {
    const std::string_view before = plain_.substr(0, plain_.find("; "));
    size_t end = before.find(": ");
    if (end == before.npos) end = 0;
    for (const char* verb : {" is ", " has "}) {
      const size_t at = before.find(verb);
      if (at == before.npos || (end != 0 && at > end)) continue;
      const std::string_view subject = before.substr(0, at);
      if (subject.find('\0') != subject.npos && subject.find(',') == subject.npos) end = at;
    }
    const std::string_view part = before.substr(0, end);
    if (find_word(part, "expected")) return "";
    if (!part.starts_with("cannot ")) return text(0, end);
    const size_t first = part.find('\0');
    if (first == part.npos) return "";
    return text(first, std::min(part.find_first_not_of('\0', first), end));
  }
  std::string expected() const {
    const auto at = find_word(plain_.substr(0, end_), "expected ");
    if (!at) return "";
    const size_t begin = *at + std::string_view("expected ").size();
    return text(begin, std::min(plain_.find(", found ", begin), end_));
  }
  std::string found() const {
    constexpr std::string_view kFound = ", found ";
    const size_t at = plain_.substr(0, end_).find(kFound);
    return at == plain_.npos ? "" : text(at + kFound.size(), end_);
  }
  std::string hint() const { return end_ == plain_.size() ? "" : text(end_ + 2, plain_.size()); }

 private:
  static std::optional<size_t> find_word(std::string_view part, std::string_view word) {
    for (size_t at = part.find(word); at != part.npos; at = part.find(word, at + 1)) {
      if (at == 0 || part[at - 1] == ' ' || part[at - 1] == '(') return at;
    }
    return std::nullopt;
  }
  std::string text(size_t begin, size_t end) const {
    return fmt::vformat(std::string_view(format_.text).substr(begin, end - begin), args_);
  }

  NumberedFormat format_;
  std::string_view plain_;
  fmt::format_args args_;
  size_t end_ = 0;  // end of the part before the hint
};

std::string message_of(std::string_view parameter, fmt::string_view format, fmt::format_args args) {
  const std::string message = fmt::vformat(format, args);
  return parameter.empty() ? message : fmt::format("{}: {}", parameter, message);
}

}  // namespace

Error::Error(const std::string& message, ErrorCode code) : std::runtime_error(message), code_(code) {}

Error::Error(ErrorCode code, std::string_view parameter, fmt::string_view format, fmt::format_args args)
    : std::runtime_error(message_of(parameter, format, args)), code_(code), object_(parameter) {
  const Parts parts(format, args);
  if (code != ErrorCode::invalid_argument) object_ = parts.object();
  expected_ = parts.expected();
  found_ = parts.found();
  hint_ = parts.hint();
}

Error Error::of_key(std::string_view key, fmt::string_view format, fmt::format_args args) {
  Error error(ErrorCode::invalid_argument, fmt::format("config key \"{}\"", key), format, args);
  error.object_ = key;
  return error;
}

void Error::complete_from(const Error& cause) {
  for (std::string Error::*field : {&Error::expected_, &Error::found_, &Error::hint_}) {
    if ((this->*field).empty()) this->*field = cause.*field;
  }
}

namespace detail {

void throw_error(ErrorCode code, std::string_view parameter, fmt::string_view format, fmt::format_args args) {
  throw Error(code, parameter, format, args);
}

void throw_key_error(std::string_view key, fmt::string_view format, fmt::format_args args) {
  throw Error::of_key(key, format, args);
}

void throw_caused(const Error& cause, fmt::string_view format, fmt::format_args args) {
  const bool of_file = cause.code() == ErrorCode::invalid_argument;
  Error error(of_file ? ErrorCode::io : cause.code(), "", format, args);
  error.complete_from(cause);
  throw error;
}

void assertion_failed(const char* condition, const char* file, int line) {
  throw std::logic_error(
      fmt::format("internal error: assertion failed: {} ({}:{}); please report this", condition, file, line));
}

}  // namespace detail
}  // namespace gpt

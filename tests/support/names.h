#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

// Assertions on the facts in an error message: files, flags, keys, values and numbers. Rewording the message
// does not break these assertions.
namespace gpt::test {

// A name or a number that a message must contain. An integer matches with or without thousands separators.
class Fact {
 public:
  Fact(std::string_view text) : text_(text) {}
  Fact(const std::string& text) : text_(text) {}
  Fact(const char* text) : text_(text) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, char>, int> = 0>
  Fact(T number) : text_(std::to_string(number)), with_thousands_(thousands(text_)) {}

  const std::string& text() const { return text_; }
  bool is_in(std::string_view message) const {
    return contains(message, text_) || (!with_thousands_.empty() && contains(message, with_thousands_));
  }

 private:
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  static bool letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

  static std::string thousands(std::string number) {
    const std::ptrdiff_t first = number.starts_with('-') ? 1 : 0;
    for (std::ptrdiff_t at = std::ssize(number) - 3; at > first; at -= 3)
      number.insert(static_cast<size_t>(at), ",");
    return number;
  }

  // Returns true if the match continues into a longer word or number. `edge` is the first or last character
  // of the match, `next` is the character adjacent to it, and `after` is the character beyond `next`.
  static bool goes_on(char edge, char next, char after) {
    if (letter(edge) && letter(next)) return true;
    return digit(edge) && (next == '.' || next == ',') && digit(after);
  }

  // Matches whole words and numbers only. 12 does not match in 512, 12.5 or 1,012, and n_head does not match
  // in n_head_kv.
  static bool contains(std::string_view message, std::string_view fact) {
    const auto at = [&](size_t i) { return i < message.size() ? message[i] : '\0'; };
    for (size_t begin = message.find(fact); begin != message.npos; begin = message.find(fact, begin + 1)) {
      const size_t end = begin + fact.size();
      const char before = begin >= 1 ? at(begin - 1) : '\0', further = begin >= 2 ? at(begin - 2) : '\0';
      if (fact.empty() ||
          (!goes_on(fact.front(), before, further) && !goes_on(fact.back(), at(end), at(end + 1))))
        return true;
    }
    return false;
  }

  std::string text_, with_thousands_;
};

// Succeeds if the message contains every fact.
inline testing::AssertionResult names(std::string_view message, std::span<const Fact> facts) {
  for (const Fact& fact : facts)
    if (!fact.is_in(message))
      return testing::AssertionFailure() << "\"" << fact.text() << "\" is not in: " << message;
  return testing::AssertionSuccess() << "all facts are in: " << message;
}
inline testing::AssertionResult names(std::string_view message, std::initializer_list<Fact> facts) {
  return names(message, std::span(facts.begin(), facts.size()));
}

// Succeeds if the action throws a gpt::Error whose message begins with its object (a file, a flag or a key)
// and contains every fact. In every message of this project, the object ends before ": ", ", " or " ".
template <class F>
testing::AssertionResult refused(F&& action, std::string_view object,
                                 std::initializer_list<Fact> facts = {}) {
  try {
    action();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (!message.starts_with(object) || !Fact(object).is_in(message.substr(0, object.size() + 1)))
      return testing::AssertionFailure()
             << "expected an error about \"" << object << "\", found: " << message;
    return names(message, facts);
  }
  return testing::AssertionFailure() << "expected an error about \"" << object << "\", found none";
}

// Succeeds if the action throws a gpt::Error with this code.
template <class F>
testing::AssertionResult fails_with(F&& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() == code) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "expected an error of code " << static_cast<int>(code) << ", found "
                                       << static_cast<int>(error.code()) << ": " << error.what();
  }
  return testing::AssertionFailure() << "expected an error, found none";
}
#define EXPECT_ERROR(statement, code) EXPECT_TRUE(::gpt::test::fails_with([&] { statement; }, code))

// Succeeds if the action throws an invalid_argument error for this parameter.
template <class F>
testing::AssertionResult refused_parameter(F&& action, std::string_view parameter,
                                           std::initializer_list<Fact> facts = {}) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument)
      return testing::AssertionFailure() << "expected a wrong parameter, found: " << error.what();
    if (error.object() != parameter)
      return testing::AssertionFailure() << "expected an error about the parameter \"" << parameter
                                         << "\", found \"" << error.object() << "\": " << error.what();
    return names(error.what(), facts);
  }
  return testing::AssertionFailure() << "expected an error about \"" << parameter << "\", found none";
}

}  // namespace gpt::test

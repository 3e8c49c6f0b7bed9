#include "base/error.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/names.h"

namespace gpt {
namespace {

struct Fields {
  std::string what, object, expected, found, hint;
  ErrorCode code = ErrorCode::io;
  bool operator==(const Fields&) const = default;
};

void PrintTo(const Fields& f, std::ostream* out) {
  *out << static_cast<int>(f.code)
       << fmt::format(" '{}' '{}' '{}' '{}' '{}'", f.what, f.object, f.expected, f.found, f.hint);
}

template <class F>
Fields fields_of(F&& action) {
  try {
    action();
  } catch (const Error& e) {
    return {e.what(), e.object(), e.expected(), e.found(), e.hint(), e.code()};
  }
  return {};
}

TEST(Errors, HaveTheFieldsOfTheirMessage) {
  EXPECT_EQ(fields_of([] { fail("{}: expected {} bytes, found {}; download it again", "a.bin", 8, 7); }),
            (Fields{"a.bin: expected 8 bytes, found 7; download it again", "a.bin", "8 bytes", "7",
                    "download it again"}));
  EXPECT_EQ(fields_of([] { fail("tensor {}: expected {}, found {}", "wte", "[2, 3]", "[3]"); }),
            (Fields{"tensor wte: expected [2, 3], found [3]", "tensor wte", "[2, 3]", "[3]", ""}));
  EXPECT_EQ(fields_of([] { fail("{}: expected at least one token; add some text", "text"); }),
            (Fields{"text: expected at least one token; add some text", "text", "at least one token", "",
                    "add some text"}));
  EXPECT_EQ(fields_of([] { fail("{}: line {} is empty, found {}", "a", 3, "b"); }),
            (Fields{"a: line 3 is empty, found b", "a", "", "b", ""}));
}

TEST(Errors, LackFieldsThatTheMessageLacks) {
  EXPECT_EQ(fields_of([] { fail("{} of {}", 1, "two"); }), (Fields{"1 of two", "", "", "", ""}));
  EXPECT_EQ(fields_of([] { fail("out of luck"); }), (Fields{"out of luck", "", "", "", ""}));
  EXPECT_EQ(fields_of([] { fail("it went wrong; try {}: once", "again"); }),
            (Fields{"it went wrong; try again: once", "", "", "", "try again: once"}));
  EXPECT_EQ(fields_of([] { fail("unexpected word, expected: {}", 1); }).object, "");
  EXPECT_EQ(fields_of([] { fail("an unexpected {}", 1); }).expected, "");
  EXPECT_EQ(fields_of([] { fail(""); }), (Fields{"", "", "", "", ""}));
}

TEST(Errors, TheHintIsBehindTheLastSemicolon) {
  const Fields f = fields_of([] { fail("{}: expected 1; 2; 3, found {}; do {}", "a", 4, "x"); });
  EXPECT_EQ(f, (Fields{"a: expected 1; 2; 3, found 4; do x", "a", "1; 2; 3", "4", "do x"}));
}

TEST(Errors, TheObjectIsTheSubject) {
  EXPECT_EQ(fields_of([] { fail("cannot read {}: {}", "a.txt", "it is locked"); }).object, "a.txt");
  EXPECT_EQ(fields_of([] { fail("cannot find the model {}: gone", "a b"); }).object, "a b");
  EXPECT_EQ(fields_of([] { fail("cannot continue: {}", "x"); }).object, "");
  EXPECT_EQ(fields_of([] { fail("{} is damaged: it has no entry {}", "a.pt", "x"); }).object, "a.pt");
  EXPECT_EQ(fields_of([] { fail("{} has no tokenizer; name one", "run"); }).object, "run");
  EXPECT_EQ(fields_of([] { fail("there is no {} in it", "x"); }).object, "");
  EXPECT_EQ(fields_of([] { fail("merge {}, token {} is unknown", 1, 2); }).object, "");
}

TEST(Errors, ArgumentsShiftNoField) {
  const std::string all = "a: expected b, found c; d {} \x01\x02\x03\x04";
  EXPECT_EQ(fields_of([&] { fail("{}: expected {}, found {}; {}", all, all, all, all); }),
            (Fields{all + ": expected " + all + ", found " + all + "; " + all, all, all, all, all}));
  EXPECT_EQ(fields_of([&] { fail("{}", all); }), (Fields{all, "", "", "", ""}));
  const std::string zero("a\0: b", 5);
  EXPECT_EQ(fields_of([&] { fail("{}: {}", zero, 1); }).object, zero);
}

TEST(Errors, PlaceholdersKeepTheirArguments) {
  EXPECT_EQ(fields_of([] { fail("{1}: expected {0}, found {1}; take {0}", 1, 2); }),
            (Fields{"2: expected 1, found 2; take 1", "2", "1", "2", "take 1"}));
  EXPECT_EQ(fields_of([] { fail("{:.{}f}: expected {:>4}, found {:x}; {{}} {}", 1.25, 1, 7, 255, "end"); }),
            (Fields{"1.2: expected    7, found ff; {} end", "1.2", "   7", "ff", "{} end"}));
  const std::vector<int> list = {1, 2};
  EXPECT_EQ(fields_of([&] { fail("x: expected {}, found none", fmt::join(list, ", ")); }),
            (Fields{"x: expected 1, 2, found none", "x", "1, 2", "none", ""}));
  EXPECT_EQ(fields_of([] { fail("{{: {}", 1); }), (Fields{"{: 1", "{", "", "", ""}));
}

TEST(Errors, OfAParameterNameIt) {
  EXPECT_EQ(fields_of([] { fail_parameter("top_k", "expected 0 to {}, found {}; lower it", 9, 10); }),
            (Fields{"top_k: expected 0 to 9, found 10; lower it", "top_k", "0 to 9", "10", "lower it",
                    ErrorCode::invalid_argument}));
  EXPECT_EQ(fields_of([] { fail_usage("config key \"{}\": expected a number, found {}", "lr", "x"); }),
            (Fields{"config key \"lr\": expected a number, found x", "", "a number", "x", "",
                    ErrorCode::invalid_argument}));
}

TEST(Errors, HaveACode) {
  EXPECT_ERROR(fail("x"), ErrorCode::io);
  EXPECT_ERROR(fail_usage("x"), ErrorCode::invalid_argument);
  EXPECT_ERROR(fail_not_found("x"), ErrorCode::not_found);
  EXPECT_ERROR(fail_unsupported("x"), ErrorCode::unsupported);
  EXPECT_ERROR(fail_memory("x"), ErrorCode::out_of_memory);
  EXPECT_ERROR(throw Error("x: y"), ErrorCode::io);
  EXPECT_EQ(fields_of([] { throw Error("x: y"); }).object, "");
}

// Catches an error of the action, wraps it with fail_because, and returns the fields of the new error.
template <class F>
Fields wrapped(F&& action) {
  return fields_of([&] {
    try {
      action();
    } catch (const Error& error) {
      fail_because(error, "{}: {}", "a.json", error.what());
    }
  });
}

TEST(Errors, KeepCodeAndFieldsOfTheirCause) {
  EXPECT_EQ(wrapped([] { fail_unsupported("key {}: expected 1, found 2; drop it", "k"); }),
            (Fields{"a.json: key k: expected 1, found 2; drop it", "a.json", "1", "2", "drop it",
                    ErrorCode::unsupported}));
  EXPECT_EQ(wrapped([] { fail_parameter("lr", "expected 1, found 2"); }),
            (Fields{"a.json: lr: expected 1, found 2", "a.json", "1", "2", "", ErrorCode::io}));
}

TEST(Errors, OfTheProgrammerAreOthers) {
  EXPECT_THROW(GPT_ASSERT(1 + 1 == 3), std::logic_error);
  EXPECT_NO_THROW(GPT_ASSERT(1 + 1 == 2));
}

}  // namespace
}  // namespace gpt

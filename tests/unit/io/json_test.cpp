#include "base/json.h"

#include <nlohmann/json.hpp>

#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

using nlohmann::json;

std::string rejected(const std::string& text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "config.json", limits); });
}

TEST(Json, BuildsTheTreeThatTheTextSays) {
  const std::string text =
      R"( {"a": [1, -2, 2.5, true, null, "x\u00e9"], "b": {"c": {}, "d": []}, "e": 1e3} )";
  EXPECT_EQ(parse_json(text, "t"), json::parse(text));
  EXPECT_EQ(parse_json("3", "t"), json(3));
  EXPECT_EQ(parse_json("18446744073709551615", "t").get<uint64_t>(), UINT64_MAX);
}

TEST(Json, RejectsWhatIsNotJsonAndSaysWhere) {
  const std::string message = rejected("{\"a\": 1,\n \"b\": oops}");
  EXPECT_HAS(message, "config.json");
  EXPECT_HAS(message, "line 2, column 7");
  for (const std::string text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "{'a':1}", "[1] 2", "// x\n1", "NaN", "01", "+1", "\"\n\"",
        "\"\\ud800\"", "\"\xff\"", "\"\xc0\xaf\"", "1e999", "{\"a\" 1}", "]", "\"abc"}) {
    EXPECT_HAS(rejected(text), "config.json") << text;
  }
}

TEST(Json, RejectsBytesBehindANul) {
  EXPECT_HAS(rejected(std::string("{}\0[", 4)), "NUL");
  EXPECT_HAS(rejected(std::string("\0", 1)), "NUL");
}

TEST(Json, RejectsDuplicateKeysAtAnyDepth) {
  EXPECT_HAS(rejected(R"({"a":1,"b":2,"a":3})"), "duplicate key \"a\"");
  EXPECT_HAS(rejected(R"([{"x":{"k":1,"\u006b":1}}])"), "duplicate key \"k\"");
  EXPECT_NO_THROW(parse_json(R"([{"a":1},{"a":1,"b":{"a":1}}])", "t"));
}

TEST(Json, BoundsDepth) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse_json(nested(64), "t"));
  EXPECT_HAS(rejected(nested(65)), "column 65: nested deeper than 64");
  EXPECT_HAS(rejected(std::string(1'000'000, '[')), "nested deeper");
  EXPECT_NO_THROW(parse_json("\"" + std::string(100, '[') + "\"", "t"));
}

TEST(Json, BoundsBytesElementsStringsAndNumbers) {
  EXPECT_HAS(rejected("[1,2,3]", {.max_bytes = 6}), "at most 6 bytes");
  EXPECT_NO_THROW(parse_json("[1,2,3]", "t", {.max_elements = 3}));
  EXPECT_HAS(rejected("[1,2,3,4]", {.max_elements = 3}), "more than 3 values");
  EXPECT_NO_THROW(parse_json("\"1234\"", "t", {.max_string_bytes = 5}));
  EXPECT_HAS(rejected("\"123456\"", {.max_string_bytes = 5}), "string longer than 5");
  EXPECT_NO_THROW(parse_json("[1,     2]     ", "t", {.max_string_bytes = 5}));
  EXPECT_HAS(rejected("[1,\n2]      ", {.max_string_bytes = 5}), "line 2, column 3: more than 5 blanks");
  EXPECT_HAS(rejected("[" + std::string(5000, '7') + "]"), "number too long");
}

TEST(Json, MessagesStayShortAndPrintable) {
  const std::string message = rejected("[\"" + std::string(100'000, 'x') + "\x01");
  EXPECT_LT(message.size(), 500u);
  for (const char c : rejected("\"\x1b[2J\xff\""))
    EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(Json, ReadsAFile) {
  const TempDir dir;
  write_text(dir.file("c.json"), "{\"n\": 3}");
  EXPECT_EQ(read_json_file(dir.file("c.json"))["n"], 3);
  EXPECT_HAS(error_of([&] { read_json_file(dir.file("none.json")); }), "none.json");
  EXPECT_HAS(error_of([&] { read_json_file(dir.file("c.json"), {.max_bytes = 7}); }), "at most 7");
  EXPECT_HAS(error_of([&] { read_json_file(dir.path()); }), "regular file");
}

}  // namespace
}  // namespace gpt

#include "base/json.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
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

// Values that are passed on: json.dumps(json.loads(text)) of Python.
TEST(Json, DocumentsKeepTheDigitsOfTheirNumbers) {
  std::ifstream file(GPT_SOURCE_DIR "/tests/data/grammar/numbers.jsonl");
  int rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const json row = json::parse(line);
    const std::string text = row["text"], python = row["python"];
    EXPECT_EQ(json_text(parse_json_document(text, "t")), python) << text;
    const std::string inside = "{\"b\":[" + text + ",{\"a\":" + text + "}]}";
    EXPECT_EQ(json_text(parse_json_document(inside, "t")), "{\"b\":[" + python + ",{\"a\":" + python + "}]}");
    EXPECT_EQ(json_text(json(parse_json_document(inside, "t"))),
              "{\"b\":[" + python + ",{\"a\":" + python + "}]}");
  }
  EXPECT_GT(rows, 500);
}

TEST(Json, DocumentsKeepTheOrderOfTheirKeys) {
  const std::string text = R"({"z":1,"a":{"y":"\u00e9","b":[]},"m":null})";
  EXPECT_EQ(parse_json_document(text, "t"), nlohmann::ordered_json::parse(text));
  EXPECT_EQ(json_text(parse_json_document(text, "t")),
            "{\"z\":1,\"a\":{\"y\":\"\xC3\xA9\",\"b\":[]},\"m\":null}");
  EXPECT_HAS(error_of([] { parse_json_document(R"({"x":{"k":1,"j":2,"\u006b":1}})", "d.json"); }),
             "duplicate key \"k\"");
  std::string many = "{\"0\":0";
  for (int i = 1; i < 200'000; ++i)
    many += fmt::format(",\"{}\":{}", i, i);
  EXPECT_EQ(parse_json_document(many + "}", "t").size(), 200'000u);
}

TEST(Json, BigIntegersAreNumbers) {
  const auto of = [](const std::string& text) { return parse_json_document(text, "t"); };
  const auto big = of("18446744073709551616"), negative = of("-9223372036854775809");
  EXPECT_TRUE(is_big_integer(big) && is_big_integer(negative) && is_integer(big) && is_number(big));
  EXPECT_EQ(number_text(negative), "-9223372036854775809");
  EXPECT_EQ(big, of("18446744073709551616"));
  EXPECT_NE(big, of("18446744073709551617"));
  for (const char* small : {"18446744073709551615", "-9223372036854775808", "0", "-0"})
    EXPECT_TRUE(is_integer(of(small)) && !is_big_integer(of(small))) << small;
  EXPECT_TRUE(is_number(of("1.0")) && !is_integer(of("1.0")) && !is_number(of("\"1\"")) &&
              !is_number(of("true")));
  EXPECT_EQ(json_kind(big), json_kind(of("1e30")));
  EXPECT_EQ(json_text(json{{"x", std::nan("")}, {"y", "\xFF"}}), "{\"x\":null,\"y\":\"\xEF\xBF\xBD\"}");
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

#include "base/json.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

using nlohmann::json;

testing::AssertionResult rejected(const std::string& text, std::initializer_list<Fact> facts = {},
                                  const JsonLimits& limits = {}) {
  return refused([&] { parse_json(text, "config.json", limits); }, "config.json", facts);
}

TEST(Json, BuildsTheTreeThatTheTextSays) {
  const std::string text =
      R"( {"a": [1, -2, 2.5, true, null, "x\u00e9"], "b": {"c": {}, "d": []}, "e": 1e3} )";
  EXPECT_EQ(parse_json(text, "t"), json::parse(text));
  EXPECT_EQ(parse_json("3", "t"), json(3));
  EXPECT_EQ(parse_json("18446744073709551615", "t").get<uint64_t>(), UINT64_MAX);
}

TEST(Json, RejectsWhatIsNotJsonAndSaysWhere) {
  EXPECT_TRUE(rejected("{\"a\": 1,\n \"b\": oops}", {"line 2", "column 7"}));
  EXPECT_TRUE(
      rejected("{\"a\": 1,\n \"b\": " + std::string(400, '9') + "}", {"line 2", "column 7", "1.8e308"}));
  for (const std::string text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "{'a':1}", "[1] 2", "// x\n1", "NaN", "01", "+1", "\"\n\"",
        "\"\\ud800\"", "\"\xff\"", "\"\xc0\xaf\"", "1e999", "{\"a\" 1}", "]", "\"abc"}) {
    EXPECT_TRUE(rejected(text)) << text;
  }
}

// Values are preserved like in json.dumps(json.loads(text)) of Python.
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
  EXPECT_TRUE(
      refused([] { parse_json_document(R"({"x":{"k":1,"j":2,"\u006b":1}})", "d.json"); }, "d.json", {"k"}));
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
  EXPECT_TRUE(rejected(std::string("{}\0[", 4), {"NUL", "line 1", "column 3"}));
  EXPECT_TRUE(rejected(std::string("\0", 1), {"NUL", "line 1", "column 1"}));
}

TEST(Json, RejectsDuplicateKeysAtAnyDepth) {
  EXPECT_TRUE(rejected(R"({"n":1,"b":2,"n":3})", {"n"}));
  EXPECT_TRUE(rejected(R"([{"x":{"k":1,"\u006b":1}}])", {"k"}));
  EXPECT_NO_THROW(parse_json(R"([{"a":1},{"a":1,"b":{"a":1}}])", "t"));
}

TEST(Json, BoundsDepth) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse_json(nested(64), "t"));
  EXPECT_TRUE(rejected(nested(65), {"column 65", 64}));
  EXPECT_TRUE(rejected(std::string(1'000'000, '['), {"column 65", 64}));
  EXPECT_NO_THROW(parse_json("\"" + std::string(100, '[') + "\"", "t"));
}

TEST(Json, BoundsBytesElementsStringsAndNumbers) {
  EXPECT_TRUE(rejected("[1,2,3]", {6, 7}, {.max_bytes = 6}));
  EXPECT_NO_THROW(parse_json("[1,2,3]", "t", {.max_elements = 3}));
  EXPECT_TRUE(rejected("[1,2,3,4]", {"column 7", 3}, {.max_elements = 3}));
  EXPECT_NO_THROW(parse_json("\"1234\"", "t", {.max_string_bytes = 5}));
  EXPECT_TRUE(rejected("\"123456\"", {"column 1", 5}, {.max_string_bytes = 5}));
  EXPECT_NO_THROW(parse_json("[1,     2]     ", "t", {.max_string_bytes = 5}));
  EXPECT_TRUE(rejected("[1,\n2]      ", {"line 2", "column 3", 5}, {.max_string_bytes = 5}));
  EXPECT_TRUE(rejected("[" + std::string(5000, '7') + "]", {"column 1026", 1024}));
}

TEST(Json, MessagesStayShortAndPrintable) {
  const auto message = [](const std::string& text) {
    return error_of([&] { parse_json(text, "config.json"); });
  };
  EXPECT_LT(message("[\"" + std::string(100'000, 'x') + "\x01").size(), 500u);
  for (const char c : message("\"\x1b[2J\xff\""))
    EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(Json, ReadsAFile) {
  const TempDir dir;
  write_text(dir.file("c.json"), "{\"n\": 3}");
  EXPECT_EQ(read_json_file(dir.file("c.json"))["n"], 3);
  EXPECT_TRUE(names(error_of([&] { read_json_file(dir.file("none.json")); }), {dir.file("none.json")}));
  EXPECT_TRUE(names(error_of([&] { read_json_file(dir.file("c.json"), {.max_bytes = 7}); }),
                    {dir.file("c.json"), 7, 8}));
  EXPECT_TRUE(names(error_of([&] { read_json_file(dir.path()); }), {dir.path()}));
}

}  // namespace
}  // namespace gpt

// Tests parsing of requests: fields, errors, routes and API keys.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "serve/api_error.h"
#include "serve/http/guard.h"
#include "serve/json_text.h"
#include "serve/openai/json_request.h"
#include "serve/router.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

// Returns the body of the ApiError that a call throws.
template <class F>
json error_of(F&& call) {
  try {
    call();
  } catch (const ApiError& error) {
    return json::parse(error.body())["error"];
  }
  return nullptr;
}

TEST(ApiError, HasTheFormThatClientsRead) {
  const ApiError error(429, "full \xff", "n", "rate_limit_exceeded");
  EXPECT_EQ(
      error.body(),
      "{\"error\":{\"message\":\"full \xef\xbf\xbd\",\"type\":\"rate_limit_error\",\"param\":\"n\",\"code\":"
      "\"rate_limit_exceeded\"}}");
  EXPECT_EQ(error.reply().headers, (HttpHeaders{{"Retry-After", "1"}}));
  try {
    fail_parameter("top_p", "expected less");
  } catch (...) {
    EXPECT_EQ(json::parse(current_error().body())["error"]["param"], "top_p");
  }
  try {
    throw std::runtime_error("disk");
  } catch (...) {
    EXPECT_EQ(current_error().status(), 500);
  }
}

TEST(Fields, HaveTypesAndRanges) {
  const json body =
      parse_body(R"({"i":3,"whole":4.0,"half":1.5,"big":18446744073709551615,"low":-9223372036854775808,
    "huge":1e308,"text":"t","flag":true,"nothing":null})");
  const Fields fields(body);
  EXPECT_EQ(fields.integer("i", 0, 10), 3);
  EXPECT_EQ(fields.integer("low", INT64_MIN, INT64_MAX), INT64_MIN);
  const json seeds =
      parse_body(R"({"odd":9007199254740993,"most":9223372036854775807,"more":9223372036854775808,
    "less":-9223372036854775809,"whole":9007199254740992.0,"far":1e19})");
  const Fields exact(seeds);
  EXPECT_EQ(exact.integer("odd", INT64_MIN, INT64_MAX), 9007199254740993);
  EXPECT_EQ(exact.integer("most", INT64_MIN, INT64_MAX), INT64_MAX);
  EXPECT_EQ(exact.integer("whole", INT64_MIN, INT64_MAX), 9007199254740992);
  for (const char* name : {"more", "less", "far"})
    EXPECT_EQ(error_of([&] { exact.integer(name, INT64_MIN, INT64_MAX); })["param"], name);
  EXPECT_EQ(error_of([&] { exact.integer("odd", 0, 9007199254740992); })["param"], "odd");
  EXPECT_EQ(fields.integer("whole", 0, 10), 4);
  EXPECT_EQ(fields.integer("nothing", 0, 10), std::nullopt);
  EXPECT_EQ(fields.integer("missing", 0, 10), std::nullopt);
  for (const char* name : {"half", "big", "low", "huge", "text", "flag"}) {
    EXPECT_EQ(error_of([&] { fields.integer(name, 0, int64_t{1} << 53); })["param"], name);
    EXPECT_EQ(error_of([&] { fields.choice(name, {"a", "b"}); })["param"], name);
  }
  EXPECT_EQ(fields.number("half", 0, 2), 1.5);
  const json error = error_of([&] { fields.number("huge", 0, 2); });
  EXPECT_EQ(error["param"], "huge");
  EXPECT_TRUE(test::names(error["message"].get<std::string>(), {"huge", 0, 2, "1e+308"}));
  EXPECT_EQ(error_of([&] { Fields(body["text"], "options."); })["param"], "options");
  EXPECT_EQ(error_of([&] {
              fields.refuse({"missing", "nothing", "text"});
            })["code"],
            "unsupported_parameter");
}

TEST(Fields, BodiesAreObjectsOfStrictJson) {
  for (const char* body : {"", "[]", "3", "{\"a\":1,}", "{\"a\":NaN}", "{\"a\":1e999}", "{\"a\":\"\xc3\"}",
                           "{\"a\":1}{}", "{\"a\":1,\"a\":1}"})
    EXPECT_EQ(error_of([&] { parse_body(body); })["code"], "invalid_json") << body;
  EXPECT_EQ(error_of([&] { parse_body("{\"a\":" + std::string(65, '[')); })["code"], "invalid_json");
}

TEST(Router, KnowsPathsAndMethods) {
  Router router;
  router.add({.method = "GET", .path = "/v1/models", .run = {}});
  router.add({.method = "GET", .path = "/v1/models/*", .run = {}});
  router.add({.method = "POST", .path = "/v1/chat", .run = {}});
  EXPECT_EQ(router.find("HEAD", "/v1/models").path, "/v1/models");
  EXPECT_EQ(router.find("GET", "/v1/models/a/b").path, "/v1/models/*");
  EXPECT_EQ(router.allowed("/v1/chat"), "POST");
  const auto status = [&](const char* method, const char* path) {
    try {
      router.find(method, path);
    } catch (const ApiError& error) {
      return error.status();
    }
    return 200;
  };
  EXPECT_EQ(status("GET", "/v1/chat"), 405);
  EXPECT_EQ(status("GET", "/v1/models/"), 404);
  EXPECT_EQ(status("GET", "/../etc/passwd"), 404);
}

TEST(Guard, KeysAreFoundWhole) {
  const KeyRing keys({"0123456789abcdef", "0123456789abcdefg"});
  const auto find = [&](const std::string& header) { return keys.find(&header); };
  EXPECT_EQ(find("Bearer 0123456789abcdef"), 0u);
  EXPECT_EQ(find("bearer 0123456789abcdefg"), 1u);
  for (const char* header : {"", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Basic 0123456789abcdef",
                             "Bearer 0123456789abcdefh"})
    EXPECT_EQ(find(header), std::nullopt) << header;
  EXPECT_EQ(find("Bearer " + std::string("0123456789abcdef") + '\0'), std::nullopt);
  EXPECT_EQ(keys.find(nullptr), std::nullopt);
  const gpt::test::TempDir dir;
  gpt::test::write_plain_file(dir.file("short"), "abc\n");
  gpt::test::write_plain_file(dir.file("none"), "# none\n\n");
  EXPECT_THROW(KeyRing::read(dir.file("short")), Error);
  EXPECT_THROW(KeyRing::read(dir.file("none")), Error);
}

TEST(Guard, HostsAndContentTypes) {
  const std::vector<std::string> hosts = {"localhost", "[::1]"};
  const auto host = [&](const char* name) {
    const HttpRequest request{.method = "GET", .target = "/", .headers = {{"host", name}}};
    return error_of([&] { check_host(request, hosts); }).is_null();
  };
  EXPECT_TRUE(host("localhost") && host("LocalHost:8080") && host("[::1]:8080") && host("[::1]"));
  EXPECT_FALSE(host("evil.example") || host("localhost.evil.example") || host("") || host("[::2]:8080"));
  const auto type = [&](const char* name) {
    const HttpRequest request{.method = "POST", .target = "/", .headers = {{"Content-Type", name}}};
    return error_of([&] { check_content_type(request); }).is_null();
  };
  EXPECT_TRUE(type("application/json") && type("Application/JSON ; charset=utf-8"));
  EXPECT_FALSE(type("text/plain") || type("application/jsonp") || type(""));
}

TEST(RateLimit, RequestsComeBackWithTime) {
  RateLimit limit(3);
  const Clock::time_point begin;
  const auto at = [&](double seconds) {
    return begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(limit.take("a", at(0)), 0);
  EXPECT_NEAR(limit.take("a", at(0)), 20, 1e-6);
  EXPECT_EQ(limit.take("b", at(0)), 0) << "another client";
  EXPECT_NEAR(limit.take("a", at(15)), 5, 1e-6);
  EXPECT_EQ(limit.take("a", at(20.001)), 0);
  EXPECT_GT(limit.take("a", at(20.002)), 0);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(limit.take("a", at(1000)), 0) << "never more than a minute's";
  EXPECT_GT(limit.take("a", at(1000)), 0);
  RateLimit none(0);
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(none.take("a", at(0)), 0);
}

TEST(RateLimit, ManyClientsTakeBoundedMemory) {
  RateLimit limit(1);
  const Clock::time_point now;
  for (size_t i = 0; i < 3 * RateLimit::kMostClients; ++i)
    ASSERT_EQ(limit.take(std::to_string(i), now), 0);
  EXPECT_EQ(limit.take("a", now), 0);
  EXPECT_GT(limit.take("a", now), 0);
}

TEST(JsonText, WritesWhatParsesBack) {
  std::string every;
  for (char32_t c = 0; c < 0x250; ++c)
    append_utf8(every, c);
  std::string out;
  append_json(out, every);
  EXPECT_EQ(json::parse(out), every);
  EXPECT_EQ(base64("") + base64("f") + base64("fo") + base64("foo") + base64("foob"), "Zg==Zm8=Zm9vZm9vYg==");
}

}  // namespace
}  // namespace gpt::serve

// The description of the interface has what the server has.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "kept_answer.h"
#include "serve/api.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

TEST(OpenApi, DescribesEveryEndpointAndNoOther) {
  ModelSet models;
  Api api(models, {});
  const json description = json::parse(get(api, "/openapi.json").body);
  std::set<std::string> described, there;
  for (const auto& [path, methods] : description["paths"].items()) {
    for (const auto& [method, unused] : methods.items()) {
      std::string name = method + " " + path;
      std::ranges::transform(name.begin(), name.begin() + std::ssize(method), name.begin(),
                             [](unsigned char c) { return std::toupper(c); });
      described.insert(name);
    }
  }
  for (const Endpoint& endpoint : api.router().all()) {
    std::string path = endpoint.path;
    if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "{model}");
    there.insert(endpoint.method + " " + path);
    const std::string lower = endpoint.method == "GET" ? "get" : "post";
    EXPECT_EQ(description["paths"][path][lower]["security"].empty(), endpoint.open) << path;
  }
  EXPECT_EQ(described, there);
}

TEST(Api, AnswersThatAreTooLargeAreErrors) {
  ModelSet models;
  std::vector<std::string> lines;
  Api api(models, {.log = [&](const std::string& line) { lines.push_back(line); }});
  const HttpRequest request{.method = "GET", .target = "/openapi.json"};
  EXPECT_EQ(ask(api, request).status, 200);
  const HttpReply reply = ask(api, request, 1000);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["code"], "response_too_large");
  EXPECT_EQ(json::parse(lines.at(1))["status"], 400);
}

// Every "$ref" leads to something.
void expect_refs(const json& value, const json& root) {
  if (value.is_object() && value.contains("$ref")) {
    EXPECT_TRUE(root.contains(json::json_pointer(value["$ref"].get<std::string>().substr(1)))) << value;
  }
  if (!value.is_structured()) return;
  for (const json& inner : value)
    expect_refs(inner, root);
}

TEST(OpenApi, RefersToWhatItHas) {
  ModelSet models;
  Api api(models, {});
  const json description = json::parse(get(api, "/openapi.json").body);
  expect_refs(description, description);
}

TEST(Api, CountsEveryCallOnce) {
  ModelSet models;
  std::vector<std::string> lines;
  Api api(models, {.log = [&](const std::string& line) { lines.push_back(line); }});
  EXPECT_EQ(get(api, "/health").body, "{\"status\":\"ok\"}");
  EXPECT_EQ(get(api, "/nowhere").status, 404);
  api.drain();
  EXPECT_EQ(get(api, "/health").status, 503);
  EXPECT_EQ(api.in_flight(), 0);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(json::parse(lines[1])["status"], 404);
  EXPECT_NE(get(api, "/metrics").body.find("gptcpp_requests_total{endpoint=\"/health\",status=\"503\"} 1\n"),
            std::string::npos);
}

}  // namespace
}  // namespace gpt::serve

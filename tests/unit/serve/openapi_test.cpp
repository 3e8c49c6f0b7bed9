// Tests that the OpenAPI description matches the server.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/file.h"
#include "convert/gguf_export.h"
#include "kept_answer.h"
#include "serve/api.h"
#include "serve/openai/api_reference.h"
#include "support/small_models.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"

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
    if (path.ends_with("/*")) path.replace(path.size() - 1, 1, fmt::format("{{{}}}", endpoint.below));
    there.insert(endpoint.method + " " + path);
    const std::string lower = endpoint.method == "GET" ? "get" : "post";
    const json& operation = description["paths"][path][lower];
    EXPECT_EQ(operation["security"].empty(), endpoint.open) << path;
    EXPECT_EQ(operation.contains("requestBody"), endpoint.method == "POST") << path;
    EXPECT_EQ(endpoint.method == "GET",
              endpoint.runs == Runs::on_server || endpoint.runs == Runs::on_watching)
        << path;
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

// Checks that every "$ref" refers to an existing definition.
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

// Resolves a "$ref", also if the value may be null.
json resolved(const json& schema, const json& root) {
  if (schema.contains("$ref"))
    return resolved(root.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))), root);
  for (const json& part : schema.value("anyOf", json::array())) {
    if (part.contains("$ref")) return resolved(part, root);
  }
  return schema;
}

// Collects the names of all properties at any depth.
void collect_properties(const json& value, std::set<std::string>& names) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.contains("properties") && value["properties"].is_object()) {
    for (const auto& [name, unused] : value["properties"].items())
      names.insert(name);
  }
  for (const json& inner : value)
    collect_properties(inner, names);
}

// Returns the words in the source files of the server that match a regular expression.
std::set<std::string> words_of_sources(const char* pattern) {
  std::set<std::string> words;
  const std::regex place(pattern);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GPT_SOURCE_DIR "/src/serve")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read_file(entry.path());
    for (auto at = std::sregex_iterator(text.begin(), text.end(), place); at != std::sregex_iterator(); ++at)
      words.insert((*at)[1]);
  }
  return words;
}

// A server with a model that has a tokenizer and a chat template.
class DescribedServer : public testing::Test {
 protected:
  DescribedServer() {
    const auto tokenizer = load_tokenizer(GPT_SOURCE_DIR "/tests/data/chat.tokenizer.json");
    const std::string config =
        R"({"n_embd": 64, "n_head": 2, "n_layer": 1, "d_ff": 64, "n_ctx": 256, "vocab_size": )" +
        std::to_string(tokenizer->vocab_size()) + "}";
    const test::RandomModel random(test::make_config({"t", "gpt2", config}), DType::f32);
    write_gguf(dir_.file("m.gguf"), random.model, random.model.weights, tokenizer.get(),
               {.chat_templates = {{kDefaultTemplate,
                                    read_file(GPT_SOURCE_DIR "/tests/data/chat_templates/qwen2_5.jinja")}}});
    ServedModelOptions options{.name = "m", .path = dir_.file("m.gguf")};
    options.kv_bytes = 1 << 20;
    options.sequences = 2;
    models_.add(std::make_unique<ServedModel>(options));
  }
  ~DescribedServer() override { models_.stop(); }

  json operation(const std::string& path) { return description_["paths"][path]["post"]; }
  json request_properties(const std::string& path) {
    return resolved(operation(path)["requestBody"]["content"]["application/json"]["schema"],
                    description_)["properties"];
  }

  test::TempDir dir_;
  ModelSet models_;
  Api api_{models_, {}};
  const json description_ = json::parse(get(api_, "/openapi.json").body);
  // Example requests for every endpoint that takes a body and only requires the model.
  static json conversation() {
    return {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 2}};
  }
  const std::map<std::string, std::vector<json>> requests_ = {
      {"/v1/chat/completions", {conversation()}},
      {"/v1/completions", {{{"prompt", "a"}, {"max_tokens", 2}}}},
      {"/v1/embeddings", {{{"input", "a"}}}},
      {"/tokenize", {{{"content", "a"}}, {{"prompt", "a"}}, conversation()}},
      {"/detokenize", {{{"tokens", {5}}}}},
      {"/apply-template", {conversation()}},
      {"/trace", {{{"prompt", "a"}}, conversation()}}};
};

TEST_F(DescribedServer, DescribesEveryFieldThatItReads) {
  std::set<std::string> described;
  collect_properties(description_["paths"], described);
  collect_properties(description_["components"], described);
  const std::set<std::string> read = words_of_sources(
      R"re([fF]ields(?:\([^()]*\))?\.(?:boolean|integer|number|text|choice|find)\(\s*"(\w+)")re");
  EXPECT_GT(read.size(), 30u);
  for (const std::string& name : read)
    EXPECT_TRUE(described.contains(name)) << name;
}

// The request must be refused if a described field has a value of a wrong type.
TEST_F(DescribedServer, ReadsEveryFieldThatItDescribes) {
  const json wrong[] = {json::array({json::object()}), {{"no such key", {1}}}, "\x01", 1e300, true};
  const auto is_refused = [&](const std::string& path, json request, const std::string& name) {
    return std::ranges::any_of(wrong, [&](const json& value) {
      request[name] = value;
      return post(api_, path, request.dump()).status >= 400;
    });
  };
  for (const auto& [path, requests] : requests_) {
    for (const json& request : requests)
      ASSERT_EQ(post(api_, path, request.dump()).status, 200) << path << request;
    const json properties = request_properties(path);
    for (const auto& [name, unused] : properties.items()) {
      EXPECT_TRUE(std::ranges::any_of(
          requests,
          [&, &path = path, &name = name](const json& request) { return is_refused(path, request, name); }))
          << path << ": " << name;
    }
  }
}

// Returns a request for each value just outside of the described range of a field.
std::vector<json> requests_out_of_range(const json& request, const std::string& name, const json& property) {
  std::vector<json> all;
  for (const auto& [key, step] : {std::pair{"minimum", -1}, {"maximum", 1}}) {
    if (!property.contains(key) || std::abs(property[key].get<double>()) > 1e15) continue;
    json outside = request;
    outside[name] = property[key].get<double>() + step;
    all.push_back(outside);
  }
  return all;
}

TEST_F(DescribedServer, AcceptsTheDescribedRangesOnly) {
  int ranges = 0;
  for (const auto& [path, requests] : requests_) {
    const json properties = request_properties(path);
    for (const auto& [name, property] : properties.items()) {
      for (const json& request : requests_out_of_range(requests.front(), name, property)) {
        const HttpReply reply = post(api_, path, request.dump());
        EXPECT_EQ(reply.status, 400) << path << ": " << name;
        EXPECT_EQ(json::parse(reply.body)["error"]["param"], name) << path;
        ++ranges;
      }
    }
  }
  EXPECT_GE(ranges, 40);
}

TEST_F(DescribedServer, HasAnExampleOfEveryRequest) {
  for (const Endpoint& endpoint : api_.router().all()) {
    if (endpoint.has_body() && endpoint.runs != Runs::on_loading) {
      EXPECT_TRUE(requests_.contains(endpoint.path)) << endpoint.path;
    }
  }
}

// If this test fails: gpt completion markdown api > docs/api-server.md
TEST(ApiReference, IsTheCommittedPage) {
  EXPECT_TRUE(api_reference() == read_file(GPT_SOURCE_DIR "/docs/api-server.md"));
}

// Checks that every key of a response is a property in its description.
void expect_described(const json& answer, const json& schema_or_reference, const json& root,
                      const std::string& place) {
  const json schema = resolved(schema_or_reference, root);
  if (answer.is_array() && schema.contains("items")) {
    for (const json& item : answer)
      expect_described(item, schema["items"], root, place + "[]");
  }
  if (!answer.is_object() || !schema.contains("properties")) return;
  for (const auto& [key, value] : answer.items()) {
    EXPECT_TRUE(schema["properties"].contains(key)) << place << "." << key;
    if (schema["properties"].contains(key))
      expect_described(value, schema["properties"][key], root, place + "." + key);
  }
  for (const json& key : schema.value("required", json::array()))
    EXPECT_TRUE(answer.contains(key)) << place << "." << key;
}

TEST_F(DescribedServer, AnswersWithWhatItDescribes) {
  for (const auto& [path, requests] : requests_) {
    const json content = operation(path)["responses"]["200"]["content"];
    if (!content.contains("application/json")) continue;
    json request = requests.front();
    if (path.starts_with("/v1/") && path != "/v1/embeddings")
      request["logprobs"] = path == "/v1/completions" ? json(1) : json(true);
    const HttpReply reply = post(api_, path, request.dump());
    ASSERT_EQ(reply.status, 200) << path << reply.body;
    const json answer = json::parse(reply.body);
    EXPECT_TRUE(answer.is_object()) << path;
    expect_described(answer, content["application/json"]["schema"], description_, path);
  }
  for (const char* path : {"/v1/models", "/v1/models/m", "/health", "/training/runs"}) {
    const std::string key = path == std::string("/v1/models/m") ? "/v1/models/{model}" : path;
    const json schema =
        description_["paths"][key]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    expect_described(json::parse(get(api_, path).body), schema, description_, path);
  }
}

TEST_F(DescribedServer, DescribesEveryHeaderThatItAdds) {
  std::set<std::string> described;
  for (const auto& [path, unused] : requests_) {
    const json answer = operation(path)["responses"]["200"];
    if (!answer.contains("headers")) continue;
    for (const auto& [name, header] : answer["headers"].items())
      described.insert(name);
  }
  EXPECT_EQ(words_of_sources(R"re(add_header\("([\w-]+)")re"), described);
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

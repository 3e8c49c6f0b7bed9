// Tests the web pages: their headers, access control, and the resources that they request.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "gpt/gpt.hpp"
#include "kept_answer.h"
#include "serve/api.h"
#include "support/names.h"
#include "support/temp_dir.h"
#include "trace/page.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

std::string header(const HttpReply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.headers) {
    if (key == name) return value;
  }
  return "";
}

const std::set<std::string> kPages = {"/",         "/chat.css",     "/chat.js",
                                      "/training", "/training.css", "/training.js"};

TEST(Pages, NeedNoKeyAndWhatTheyShowDoes) {
  ModelSet models;
  Api api(models, {.keys = KeyRing({"a key of sixteen letters"})});
  for (const std::string& path : kPages)
    EXPECT_EQ(get(api, path).status, 200) << path;
  for (const char* path : {"/v1/models", "/training/runs", "/training/runs/a", "/training/reports/a"})
    EXPECT_EQ(get(api, path).status, 401) << path;
  EXPECT_EQ(post(api, "/trace", "{}").status, 401);
  EXPECT_EQ(post(api, "/", "{}").status, 405);
}

TEST(Pages, LeadToTheTrainingWhereThereIsNoModelToChatWith) {
  ModelSet models;
  Api api(models, {.has_chat = false});
  const HttpReply reply = get(api, "/");
  EXPECT_EQ(reply.status, 302);
  EXPECT_EQ(header(reply, "Location"), "/training");
  EXPECT_EQ(get(api, "/training").status, 200);
  EXPECT_EQ(ask(api, {.method = "HEAD", .target = "/?x"}).status, 302);
}

TEST(Pages, AreForTheServersOwnHostAlone) {
  ModelSet models;
  Api api(models, {.hosts = {"localhost"}});
  const auto of_host = [&](const char* host) {
    return ask(api, {.method = "GET", .target = "/", .headers = {{"Host", host}}}).status;
  };
  EXPECT_EQ(of_host("localhost:8080"), 200);
  EXPECT_EQ(of_host("example.com"), 421);
}

TEST(Pages, ComeWithAPolicyThatAllowsTheirOwnFilesAlone) {
  ModelSet models;
  Api api(models, {});
  for (const std::string& path : kPages) {
    const HttpReply reply = get(api, path);
    EXPECT_EQ(header(reply, "Referrer-Policy"), "no-referrer") << path;
    const std::string policy = header(reply, "Content-Security-Policy");
    for (const char* part : {"default-src 'none'; ", "connect-src 'self'; ", "base-uri 'none'; ",
                             "form-action 'none'; ", "frame-ancestors 'none'"})
      EXPECT_NE(policy.find(part), std::string::npos) << path << " " << policy;
    // Only two kinds of scripts are allowed: files of this server, and one inline script with a given digest
    // (32 bytes in base64).
    EXPECT_TRUE(std::regex_search(policy, std::regex("script-src 'self' 'sha256-[A-Za-z0-9+/]{43}=';")))
        << policy;
    EXPECT_EQ(policy.find("unsafe-eval"), std::string::npos);
  }
}

TEST(Pages, HaveNoInlineScriptAndNameOnlyWhatTheServerHas) {
  ModelSet models;
  Api api(models, {});
  for (const char* path : {"/", "/training"}) {
    const std::string html = get(api, path).body;
    EXPECT_FALSE(std::regex_search(html, std::regex("<script(?! src=)"))) << path;
    EXPECT_FALSE(std::regex_search(html, std::regex(" on[a-z]+=| style=|javascript:|https?://"))) << path;
    const std::regex address("(?:src|href)=\"(/[^\"]*)\"");
    for (auto at = std::sregex_iterator(html.begin(), html.end(), address); at != std::sregex_iterator();
         ++at)
      EXPECT_TRUE(kPages.contains((*at)[1].str())) << path << " " << (*at)[1];
  }
  for (const char* path : {"/chat.js", "/training.js"}) {
    const std::string script = get(api, path).body;
    for (const char* never :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"})
      EXPECT_EQ(script.find(never), std::string::npos) << path << " " << never;
  }
}

TEST(Pages, SampleAsTheProgramDoes) {
  ModelSet models;
  Api api(models, {});
  const gptcpp::GenerateOptions options;
  const std::string script = get(api, "/chat.js").body, begin = "'use strict';\nconst kSampling = ";
  ASSERT_TRUE(script.starts_with(begin));
  const json fields =
      json::parse(script.substr(begin.size(), script.find(";\n", begin.size()) - begin.size()));
  gptcpp::visit_sampling(options.sampling, [&](const gptcpp::SamplingField& field, const auto& value) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      EXPECT_EQ(fields[field.name]["default"], value) << field.name;
    }
  });
}

// --------------------------------------------------------------------------------------------------------
// Tests of traces.

class Trace : public testing::Test {
 protected:
  Trace() {
    ServedModelOptions options{.name = "llama", .path = GPT_SOURCE_DIR "/tests/golden/data/llama"};
    options.kv_bytes = 1 << 20;
    options.sequences = 1;
    models_.add(std::make_unique<ServedModel>(options));
  }
  ~Trace() override { models_.stop(); }

  // Returns the invalid field and the error message.
  static std::pair<std::string, std::string> refused(const HttpReply& reply) {
    EXPECT_EQ(reply.status, 400) << reply.body;
    const json error = json::parse(reply.body)["error"];
    return {error["param"].is_string() ? error["param"] : "", error["message"]};
  }
  ModelSet models_;
};

TEST_F(Trace, IsThePageOfThoseTokens) {
  Api api(models_, {});
  const HttpReply reply = post(api, "/trace", R"({"prompt":[1,2,3,4]})");
  ASSERT_EQ(reply.status, 200) << reply.body.substr(0, 300);
  EXPECT_EQ(reply.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(header(reply, "Cache-Control"), "no-store");
  EXPECT_NE(reply.body.find(R"("model":"llama")"), std::string::npos);
  const std::string mark = R"(id="meta">)";
  const size_t begin = reply.body.find(mark) + mark.size();
  const json meta = json::parse(reply.body.substr(begin, reply.body.find("</script>", begin) - begin));
  ASSERT_EQ(meta["tokens"].size(), 4u);
  EXPECT_EQ(meta["tokens"][3]["id"], 4);
}

TEST_F(Trace, ItsScriptIsTheOneThatPoliciesAllow) {
  Api api(models_, {});
  const std::string page = post(api, "/trace", R"({"prompt":[1,2]})").body;
  // The page has one executable script; the other scripts are data. The text between its tags must be the
  // text that was hashed during the build.
  size_t scripts = 0;
  for (size_t at = page.find("<script>"); at != std::string::npos; at = page.find("<script>", at + 1)) {
    ++scripts;
    EXPECT_EQ(page[at + 8], '\n');
    EXPECT_EQ(page[page.find("</script>", at) - 1], '\n');
  }
  EXPECT_EQ(scripts, 1u);
}

// GPT-2 files store transposed matrices, and the server uses them without conversion.
TEST_F(Trace, IsThatOfGptTrace) {
  const std::string path = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  ServedModelOptions options{.name = "gpt2", .path = path};
  options.kv_bytes = 1 << 20;
  options.sequences = 1;
  options.isa = Isa::ref;
  models_.add(std::make_unique<ServedModel>(options));
  Api api(models_, {});
  const HttpReply reply = post(api, "/trace", R"({"model":"gpt2","prompt":[1,2,3]})");
  const LoadedModel loaded(path, std::nullopt);
  ThreadPool pool(1);
  const std::vector<int32_t> ids = {1, 2, 3};
  Capture capture(loaded.model(), {pool, kernel_table(Isa::ref)}, ids, {});
  EXPECT_TRUE(reply.body == trace_page(capture, TokenNames(), {.model = "gpt2", .computed = "fp32, ref"}));
}

TEST_F(Trace, IsBounded) {
  const std::string five = R"({"prompt":[1,2,3,4,5]})";
  Api short_ones(models_, {.limits = {.trace_tokens = 4}});
  EXPECT_EQ(refused(post(short_ones, "/trace", five)).first, "prompt");
  EXPECT_TRUE(test::names(refused(post(short_ones, "/trace", five)).second, {4, 5}));
  EXPECT_EQ(post(short_ones, "/trace", R"({"prompt":[1,2,3,4]})").status, 200);
  Api quick_ones(models_, {.limits = {.trace_flops = 100}});
  EXPECT_EQ(refused(post(quick_ones, "/trace", five)).first, "prompt");
  Api small_pages(models_, {.limits = {.trace_bytes = 100}});
  EXPECT_EQ(refused(post(small_pages, "/trace", five)).first, "prompt");
  Api small_models(models_, {.limits = {.trace_parameters = 100}});
  EXPECT_EQ(refused(post(small_models, "/trace", five)).first, "model");
}

TEST_F(Trace, SaysWhatItCannotRead) {
  Api api(models_, {});
  EXPECT_EQ(refused(post(api, "/trace", "{}")).first, "prompt");
  EXPECT_EQ(refused(post(api, "/trace", R"({"prompt":[1],"messages":[]})")).first, "prompt");
  EXPECT_EQ(refused(post(api, "/trace", R"({"prompt":[[1],[2]]})")).first, "prompt");
  EXPECT_EQ(refused(post(api, "/trace", R"({"prompt":[1000000]})")).first.substr(0, 6), "prompt");
  EXPECT_EQ(post(api, "/trace", R"({"model":"another","prompt":[1]})").status, 404);
  // This model has no tokenizer.
  const auto [parameter, message] = refused(post(api, "/trace", R"({"prompt":"text"})"));
  EXPECT_EQ(parameter, "prompt");
  EXPECT_TRUE(test::names(message, {"llama"}));
}

// --------------------------------------------------------------------------------------------------------
// Tests of training runs.

class Runs : public testing::Test {
 protected:
  void add(const std::string& file, const std::string& text) {
    std::ofstream(dir_.file(file), std::ios::app) << text;
  }
  ApiOptions options() const { return {.runs = {{"a run", dir_.path()}}}; }
  static json only_run(Api& api) { return json::parse(get(api, "/training/runs").body)["runs"].at(0); }

  test::TempDir dir_;
  ModelSet models_;
};

TEST_F(Runs, TellHowFarTheyAre) {
  add("config.json", R"({"steps": 100})");
  add("metrics.jsonl",
      "{\"step\":10,\"loss\":3.5,\"tok_per_s\":200,\"seconds\":5}\n{\"step\":20,\"loss\":2.5,\"tok_per_s\":"
      "200,"
      "\"seconds\":10}\n{\"step\":20,\"val_loss\":2.75}\n{\"step\":20,\"sample\":\"Once <b>\"}\n");
  Api api(models_, options());
  const json run = only_run(api);
  EXPECT_EQ(run["name"], "a run");
  EXPECT_EQ(run["step"], 20);
  EXPECT_EQ(run["steps"], 100);
  EXPECT_EQ(run["loss"], 2.5);
  EXPECT_EQ(run["val_loss"], 2.75);
  EXPECT_EQ(run["eta_seconds"], 40);
  EXPECT_EQ(run["state"], "running");
  const json details = json::parse(get(api, "/training/runs/a%20run").body);
  EXPECT_EQ(details["curves"]["runs"][0]["curves"]["loss"]["y"], json({3.5, 2.5}));
  EXPECT_EQ(details["samples"], json::parse(R"([{"step":20,"text":"Once <b>"}])"));
  EXPECT_EQ(details["version"], run["version"]);
}

TEST_F(Runs, HaveAnotherVersionWhenTheyWentOn) {
  add("metrics.jsonl", "{\"step\":1,\"loss\":3.5}\n");
  Api api(models_, options());
  const json before = only_run(api);
  EXPECT_EQ(only_run(api)["version"], before["version"]);
  EXPECT_TRUE(before["steps"].is_null() && before["eta_seconds"].is_null());
  add("metrics.jsonl", "{\"step\":2,\"loss\":\"NaN\"}\n");
  // The server waits for fifty times the duration of the last read before it reads again. A file of one line
  // takes almost no time.
  json after = only_run(api);
  while (after["version"] == before["version"])
    after = only_run(api);
  EXPECT_EQ(after["step"], 2);
  EXPECT_TRUE(after["loss"].is_null());
}

TEST_F(Runs, GiveTheirReportAndSayWhatIsMissing) {
  add("metrics.jsonl", "{\"step\":1}\n");
  Api api(models_, options());
  EXPECT_EQ(get(api, "/training/reports/a%20run").status, 400);
  add("report.html", "<main>the report</main>");
  const HttpReply reply = get(api, "/training/reports/a%20run");
  EXPECT_EQ(reply.body, "<main>the report</main>");
  EXPECT_NE(header(reply, "Content-Security-Policy").find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(get(api, "/training/reports/other").status, 404);
  EXPECT_EQ(get(api, "/training/runs/..").status, 404);
}

TEST_F(Runs, FollowTheModelsThatAreServed) {
  const std::string folder = dir_.file("model");
  std::filesystem::copy(GPT_SOURCE_DIR "/tests/golden/data/llama", folder);
  Api api(models_, {});
  models_.add(std::make_shared<ServedModel>(
      ServedModelOptions{.name = "m", .path = folder, .sequences = 1, .kv_bytes = 1 << 20}));
  EXPECT_EQ(json::parse(get(api, "/training/runs").body)["runs"].size(), 0u) << "no run yet";
  add("model/metrics.jsonl", "{\"step\":1,\"loss\":3.5}\n");
  EXPECT_EQ(only_run(api)["name"], "m");
  EXPECT_EQ(json::parse(get(api, "/training/runs/m").body)["step"], 1);
  models_.remove("m")->worker().stop();
  EXPECT_EQ(json::parse(get(api, "/training/runs").body)["runs"].size(), 0u);
  EXPECT_EQ(get(api, "/training/runs/m").status, 404);
}

TEST_F(Runs, ADamagedFileIsSaidAndNotTheEnd) {
  add("metrics.jsonl", "no json\n{\"step\":1}\n");
  Api api(models_, options());
  EXPECT_EQ(only_run(api)["state"], "damaged");
  EXPECT_EQ(get(api, "/training/runs/a%20run").status, 400);
  EXPECT_EQ(get(api, "/health").status, 200);
}

}  // namespace
}  // namespace gpt::serve

// Tests gpt serve with models, adapters and checkpoints that are loaded, unloaded and updated.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "http_client.h"
#include "run_gpt.h"
#include "serve_process.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kAdapters = GPT_SOURCE_DIR "/tests/data/adapters/llama/";

class ServeModels : public Serve {};

// Without a tokenizer, token names in responses are ids.
TEST_F(ServeModels, AdaptersByName) {
  Server server({"base=" + kAdapters + "base", "--adapter", "tuned=" + kAdapters + "adapter"});
  const auto ids = [&](const std::string& model) {
    return server.post("/v1/completions", {{"model", model},
                                           {"prompt", json::array({3, 1, 4, 1, 5})},
                                           {"max_tokens", 6},
                                           {"temperature", 0},
                                           {"ignore_eos", true},
                                           {"logprobs", 0}})["choices"][0]["logprobs"]["tokens"];
  };
  const auto generated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate", kAdapters + "base", "--ids", "3,1,4,1,5", "--greedy", "-n",
                                      "6",        "--ignore-eos",     "--json"};
    words.insert(words.end(), more.begin(), more.end());
    json names = json::array();
    const json completion = json::parse(run_gpt(words).out)["completions"][0];
    for (const json& id : completion["ids"])
      names.push_back(std::to_string(id.get<int>()));
    return names;
  };
  EXPECT_EQ(ids("base"), generated({}));
  EXPECT_EQ(ids("base:tuned"), generated({"--adapter", kAdapters + "adapter"}));
  EXPECT_EQ(ids("tuned"), ids("base:tuned"));
  EXPECT_EQ(server.refused("/v1/completions", R"({"prompt":"text"})"), "prompt");
}

TEST_F(ServeModels, NotesAboutAdaptersOfOtherModels) {
  const gpt::test::TempDir dir;
  fs::copy(kAdapters, dir.file("models"), fs::copy_options::recursive);
  const std::string other = dir.file("models/other"), adapter = dir.file("models/adapter");
  fs::rename(dir.file("models/base"), other);
  Server server({other, "--adapter", "tuned=" + adapter, "--models-dir", dir.file("models")});
  const auto is_noted = [&] { return names(server.process().notes(), {adapter, other, "base"}); };
  EXPECT_TRUE(is_noted());
  const size_t before = server.process().notes().size();
  server.post("/v1/load_lora_adapter", {{"lora_name", "later"}, {"lora_path", "adapter"}});
  EXPECT_TRUE(names(server.process().notes().substr(before), {adapter, other}));
  EXPECT_FALSE(
      names(Server({kAdapters + "base", "--adapter", "tuned=" + kAdapters + "adapter"}).process().notes(),
            {kAdapters + "adapter"}));
}

// The client gets a hint to an endpoint that works. The operator gets the reason why the model cannot chat.
TEST_F(ServeModels, WithoutAChatTemplate) {
  Server server({"plain=" + kAdapters + "base"});
  HttpClient client(server.port());
  const json body = {{"messages", json::array({json{{"role", "user"}, {"content", "a"}}})}};
  const HttpClient::Answer answer = client.post("/v1/chat/completions", body.dump());
  EXPECT_EQ(answer.status, 400);
  const json error = json::parse(answer.body)["error"];
  EXPECT_EQ(error["code"], "no_chat_template");
  EXPECT_TRUE(names(error["message"].get<std::string>(), {"plain", "/v1/completions"}));
  EXPECT_EQ(error["message"].get<std::string>().find("--"), std::string::npos) << error;
  EXPECT_TRUE(names(server.process().notes(), {"plain"}));
}

TEST_F(ServeModels, ModelsAndAdaptersComeAndGo) {
  Server server({"--models-dir", kAdapters, "--max-lora-rank", "8", "--max-models", "1"});
  const json prompt = {{"prompt", {3, 1, 4, 1, 5}}, {"max_tokens", 6}, {"temperature", 0}, {"logprobs", 0}};
  const auto logprobs = [&](const std::string& model) {
    json body = prompt;
    body["model"] = model;
    return server.post("/v1/completions", body)["choices"][0]["logprobs"]["token_logprobs"];
  };
  EXPECT_EQ(server.refused("/v1/completions", prompt.dump(), 404), "model");
  EXPECT_EQ(server.refused("/models/load", R"({"model":"../llama/base"})"), "model");
  EXPECT_EQ(server.refused("/models/load", R"({"model":"other"})", 404), "model");
  EXPECT_EQ(server.post("/models/load", {{"model", "base"}})["model"], "base");
  EXPECT_EQ(server.refused("/models/load", R"({"model":"base"})"), "model");
  EXPECT_EQ(server.refused("/models/load", R"({"model":"adapter"})", 409), "model");
  const json alone = logprobs("base");
  const json adapter = {{"lora_name", "tuned"}, {"lora_path", "adapter"}};
  EXPECT_EQ(server.post("/v1/load_lora_adapter", adapter)["model"], "base:tuned");
  EXPECT_EQ(server.refused("/v1/load_lora_adapter", adapter.dump()), "lora_name");
  const json tuned = logprobs("base:tuned");
  EXPECT_NE(tuned, alone);
  EXPECT_EQ(logprobs("base"), alone);
  server.post("/v1/unload_lora_adapter", {{"lora_name", "tuned"}});
  EXPECT_EQ(server.refused("/v1/completions", R"({"prompt":[1],"model":"base:tuned"})", 404), "model");
  server.post("/v1/load_lora_adapter", adapter);
  EXPECT_EQ(logprobs("tuned"), tuned);
  server.post("/models/unload", {{"model", "base"}});
  EXPECT_EQ(server.refused("/v1/completions", prompt.dump(), 404), "model");
  server.post("/models/load", {{"model", "base"}});
  EXPECT_EQ(logprobs("base"), alone);
  Server closed({"base=" + kAdapters + "base"});
  EXPECT_EQ(closed.refused("/models/load", R"({"model":"base"})", 403), "");
  EXPECT_EQ(closed.refused("/models/unload", R"({"model":"base"})", 403), "");
}

// A name must be unique among models and adapters.
TEST_F(ServeModels, NamesOfModelsAndAdaptersDiffer) {
  Server server({"one=" + kAdapters + "base", "two=" + kAdapters + "base", "--models-dir", kAdapters,
                 "--max-lora-rank", "8"});
  const auto load = [](const std::string& name, const std::string& model) {
    return json{{"lora_name", name}, {"lora_path", "adapter"}, {"model", model}};
  };
  EXPECT_EQ(server.refused("/v1/load_lora_adapter", load("one", "two").dump()), "lora_name");
  EXPECT_EQ(server.refused("/v1/load_lora_adapter", load("two", "two").dump()), "lora_name");
  server.post("/v1/load_lora_adapter", load("base", "two"));
  EXPECT_EQ(server.refused("/models/load", R"({"model":"base"})"), "model");
  // Without "model", the server finds the only model with this adapter, even if it is not the first model.
  EXPECT_EQ(server.post("/v1/unload_lora_adapter", {{"lora_name", "base"}})["model"], "two:base");
  server.post("/v1/load_lora_adapter", load("tuned", "one"));
  server.post("/v1/load_lora_adapter", load("tuned", "two"));
  EXPECT_EQ(server.refused("/v1/unload_lora_adapter", R"({"lora_name":"tuned"})"), "model");
  EXPECT_EQ(server.post("/v1/unload_lora_adapter", {{"lora_name", "tuned"}, {"model", "two"}})["model"],
            "two:tuned");
  EXPECT_EQ(server.post("/v1/unload_lora_adapter", {{"lora_name", "tuned"}})["model"], "one:tuned");
}

// The server switches to the newest checkpoint of a run that continues training.
TEST_F(ServeModels, GoesOnWithTheNewestCheckpointOfARun) {
  const fs::path run = folder().string() + "-run";
  fs::remove_all(run);
  fs::copy(folder(), run, fs::copy_options::recursive);
  Server server({"tiny=" + run.string()});
  const json question = {{"prompt", "Once upon"}, {"max_tokens", 30}, {"temperature", 0}, {"logprobs", 0}};
  const json before = server.post("/v1/completions", question)["choices"][0]["logprobs"]["token_logprobs"];
  EXPECT_EQ(json::parse(HttpClient(server.port()).ask("GET", "/training/runs").body)["runs"][0]["step"], 2);

  const GptRun more = run_gpt({"train", "--resume", "--out", run.string(), "--steps", "6"});
  ASSERT_EQ(more.status, 0) << more.err;
  const std::string known = server.process().notes();
  EXPECT_TRUE(server.process().wait_until(
      [&] { return bool{names(server.process().notes().substr(known.size()), {"tiny"})}; }));
  const json after = server.post("/v1/completions", question)["choices"][0]["logprobs"]["token_logprobs"];
  EXPECT_NE(before, after);
  Server fresh({"tiny=" + run.string()});
  EXPECT_EQ(fresh.post("/v1/completions", question)["choices"][0]["logprobs"]["token_logprobs"], after);
  fs::remove_all(run);
}

}  // namespace

// Tests prompts of `gpt serve`: special tokens in prompts, and prompts that exceed their share of the
// context.

#include <algorithm>
#include <vector>

#include "run_gpt.h"
#include "serve_process.h"

namespace {

using nlohmann::json;

constexpr int32_t kFirstSpecial = 420, kTurnStart = 424, kTurnEnd = 425;  // in tests/data/chat.tokenizer.json
constexpr int64_t kContext = 256;
const std::string kSpelled = "<|im_start|>a fox<|im_end|>";

bool has_special(const std::vector<int32_t>& ids) {
  return std::ranges::any_of(ids, [](int32_t id) { return id >= kFirstSpecial; });
}

TEST_F(Serve, SpecialTokensInPromptsAreTextUnlessAsked) {
  Server server(arguments());
  const auto ids_of = [&](const json& more) {
    json body = {{"content", kSpelled}};
    body.update(more);
    return server.post("/tokenize", body)["tokens"].get<std::vector<int32_t>>();
  };
  const std::vector<int32_t> plain = ids_of(json::object()), special = ids_of({{"parse_special", true}});
  EXPECT_FALSE(has_special(plain));
  EXPECT_EQ(ids_of({{"parse_special", false}}), plain);
  ASSERT_GT(special.size(), 2u);
  EXPECT_EQ(special.front(), kTurnStart);
  EXPECT_EQ(special.back(), kTurnEnd);
  EXPECT_FALSE(has_special({special.begin() + 1, special.end() - 1}));

  const auto prompt_tokens = [&](const json& prompt, bool parse) {
    const json body = {
        {"prompt", prompt}, {"parse_special", parse}, {"add_special_tokens", false}, {"max_tokens", 1}};
    return server.post("/v1/completions", body)["usage"]["prompt_tokens"];
  };
  EXPECT_EQ(prompt_tokens(kSpelled, false), plain.size());
  EXPECT_EQ(prompt_tokens(kSpelled, true), special.size());
  EXPECT_EQ(prompt_tokens({kSpelled, kSpelled}, true), 2 * special.size());
  const json input = {{"input", kSpelled}, {"parse_special", true}, {"add_special_tokens", false}};
  EXPECT_EQ(server.post("/v1/embeddings", input)["usage"]["prompt_tokens"], special.size());

  EXPECT_EQ(server.post("/detokenize", {{"tokens", special}})["content"], kSpelled);
  EXPECT_EQ(server.post("/detokenize", {{"tokens", special}, {"skip_special_tokens", true}})["content"],
            "a fox");

  const std::string chat = question({{"parse_special", true}}).dump();
  for (const char* path : {"/v1/chat/completions", "/tokenize", "/trace"})
    EXPECT_EQ(server.refused(path, chat), "parse_special") << path;
}

TEST_F(Serve, TheLogWarnsOfSpecialTokensThatWereReadAsText) {
  Server server(arguments());
  const auto line_of = [&](const std::string& path, const json& body) {
    const size_t begin = server.process().notes().size();
    server.post(path, body);
    EXPECT_TRUE(server.process().wait_until(
        [&] { return server.process().notes().find('\n', begin) != std::string::npos; }));
    return json::parse(server.process().notes().substr(begin));
  };
  const json warned = line_of("/v1/completions", {{"prompt", {kSpelled, kSpelled}}, {"max_tokens", 1}});
  ASSERT_EQ(warned["warnings"].size(), 1u) << warned;
  EXPECT_TRUE(names(warned["warnings"][0].get<std::string>(), {"<|im_start|>", "<|im_end|>"}));
  EXPECT_EQ(line_of("/tokenize", {{"content", kSpelled}})["warnings"].size(), 1u);
  EXPECT_FALSE(line_of("/tokenize", {{"content", kSpelled}, {"parse_special", true}}).contains("warnings"));
  EXPECT_FALSE(line_of("/tokenize", {{"content", "<|im_start a fox"}}).contains("warnings"));
}

TEST_F(Serve, MaxTokensAreLimitedToTheContext) {
  Server server(arguments());
  for (const json& most : {json(1000), json(kContext), json(int64_t{1} << 40), json(nullptr)}) {
    const json answer =
        server.post("/v1/chat/completions", question({{"max_tokens", most}, {"ignore_eos", true}}));
    EXPECT_EQ(answer["usage"]["total_tokens"], kContext) << most;
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length") << most;
    if (most.is_null()) continue;
    const json body = {{"prompt", {"Once", "A longer prompt"}}, {"max_tokens", most}, {"ignore_eos", true}};
    EXPECT_EQ(server.post("/v1/completions", body)["usage"]["total_tokens"], 2 * kContext) << most;
  }
  EXPECT_EQ(server.refused("/v1/completions", R"({"prompt":"a","max_tokens":1e30})"), "max_tokens");
}

TEST_F(Serve, APromptThatFillsTheContextIsRefusedBeforeAStream) {
  Server server(arguments());
  json body = {{"prompt", std::vector<int32_t>(kContext, 7)}, {"max_tokens", 1}, {"stream", true}};
  HttpClient client(server.port());
  const HttpClient::Answer answer = client.post("/v1/completions", body.dump());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "context_length_exceeded");
  body["prompt"].erase(0);
  EXPECT_EQ(client.post("/v1/completions", body.dump()).status, 200);
}

// Returns a conversation with a system message, `turns` completed turns, and a last question.
json long_conversation(int turns) {
  json messages = {{{"role", "system"}, {"content", "Be kind."}}};
  for (int i = 0; i < turns; ++i) {
    messages.push_back({{"role", "user"}, {"content", "Tell me of fox " + std::to_string(i)}});
    messages.push_back({{"role", "assistant"}, {"content", "It ran away."}});
  }
  messages.push_back({{"role", "user"}, {"content", "And then?"}});
  return messages;
}

TEST_F(Serve, TruncationForgetsTheOldestTurns) {
  Server server({"tiny=" + folder().string(), "--template", "chatml"});
  const auto count = [&](const json& messages) {
    return server.post("/tokenize", {{"messages", messages}})["count"].get<int64_t>();
  };
  HttpClient client(server.port());
  const auto ask = [&](const json& messages) {
    const json body = {{"messages", messages}, {"max_tokens", 4}, {"truncation", "auto"}, {"stream", false}};
    return client.post("/v1/chat/completions", body.dump());
  };
  const json messages = long_conversation(20);
  EXPECT_EQ(server.refused("/v1/chat/completions", json({{"messages", messages}}).dump()), "messages");
  const HttpClient::Answer answer = ask(messages);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const size_t removed = std::stoul(answer.headers.at("x-truncated-messages"));
  EXPECT_EQ(removed % 2, 0u);
  json rest = messages;
  rest.erase(rest.begin() + 1, rest.begin() + 1 + static_cast<std::ptrdiff_t>(removed));
  EXPECT_EQ(json::parse(answer.body)["usage"]["prompt_tokens"], count(rest));
  EXPECT_LE(count(rest), kContext / 2);
  rest.insert(rest.begin() + 1, messages.begin() + static_cast<std::ptrdiff_t>(removed) - 1,
              messages.begin() + static_cast<std::ptrdiff_t>(removed) + 1);
  EXPECT_GT(count(rest), kContext / 2) << "as few turns as possible";

  EXPECT_FALSE(ask(long_conversation(2)).headers.contains("x-truncated-messages"));
  json question_too_long = long_conversation(2);
  question_too_long.back()["content"] = std::string(4000, 'x');
  EXPECT_EQ(ask(question_too_long).status, 400);
}

TEST_F(Serve, TruncationKeepsTheLastTokensOfAPrompt) {
  Server server(arguments());
  std::vector<int32_t> ids(300, 7);
  ids.back() = 8;
  json body = {{"prompt", ids}, {"max_tokens", 1}, {"truncation", "auto"}, {"seed", 1}};
  HttpClient client(server.port());
  const HttpClient::Answer answer = client.post("/v1/completions", body.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("x-truncated-tokens"), "172");
  const json truncated = json::parse(answer.body);
  EXPECT_EQ(truncated["usage"]["prompt_tokens"], kContext / 2);
  body["prompt"] = std::vector<int32_t>(ids.end() - kContext / 2, ids.end());
  EXPECT_EQ(server.post("/v1/completions", body)["choices"][0]["text"], truncated["choices"][0]["text"]);
  body["truncation"] = "disabled";
  server.post("/v1/completions", body);
  body["prompt"] = ids;
  EXPECT_EQ(server.refused("/v1/completions", body.dump()), "prompt");
  body["truncation"] = "some";
  EXPECT_EQ(server.refused("/v1/completions", body.dump()), "truncation");
  body["truncation"] = "auto";
  body["echo"] = true;
  EXPECT_EQ(server.refused("/v1/completions", body.dump()), "truncation");
}

TEST_F(Serve, AChatWithAServerOutlivesTheContext) {
  Server server(arguments());
  constexpr int kMessages = 30;
  std::string lines;
  for (int i = 0; i < kMessages; ++i)
    lines += "Tell me of a fox and a dog.\n";
  const GptRun run =
      run_gpt({"chat", "http://127.0.0.1:" + std::to_string(server.port()), "--max-tokens", "8", "--json"},
              {}, lines);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(std::ranges::count(run.out, '\n'), kMessages);
}

TEST_F(Serve, GenerateReadsSpecialTokensWhereAsked) {
  const auto ids_of = [&](const std::vector<std::string>& more, bool warns) {
    std::vector<std::string> words = {"generate", folder().string(), "--prompt", kSpelled, "--max-tokens",
                                      "1",        "--no-bos",        "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(bool{names(run.err, {"<|im_start|>", "<|im_end|>"})}, warns) << run.err;
    return json::parse(run.out)["completions"][0]["prompt_ids"].get<std::vector<int32_t>>();
  };
  EXPECT_FALSE(has_special(ids_of({}, true)));
  const std::vector<int32_t> ids = ids_of({"--special"}, false);
  EXPECT_EQ(ids.front(), kTurnStart);
  EXPECT_EQ(ids.back(), kTurnEnd);
}

}  // namespace

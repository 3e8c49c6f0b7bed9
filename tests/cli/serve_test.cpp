// Tests gpt serve end to end over sockets.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "http_client.h"
#include "run_gpt.h"
#include "serve_process.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Returns the JSON objects of an event stream. The end marker "[DONE]" is a string.
std::vector<json> events_of(const std::string& body) {
  std::vector<json> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    EXPECT_EQ(body.substr(at, 6), "data: ");
    const std::string data = body.substr(at + 6, end - at - 6);
    events.push_back(data == "[DONE]" ? json(data) : json::parse(data));
    at = end + 2;
  }
  return events;
}

TEST_F(Serve, ChatIsThatOfGptChat) {
  Server server(arguments());
  const json answer = server.post("/v1/chat/completions", question({{"model", "tiny"}}));
  const GptRun run = run_gpt({"chat", folder().string(), "Once upon a time", "--template", "nanochat",
                              "--greedy", "--max-tokens", "12", "--json"});
  const json chat = json::parse(run.out);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], chat["text"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], chat["prompt_ids"].size());
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");

  // A repeated request uses cached tokens. With a seed, samples equal those of gpt generate.
  EXPECT_GT(
      server.post("/v1/chat/completions", question())["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  const json drawn = server.post(
      "/v1/completions",
      {{"prompt", "Once"}, {"max_tokens", 20}, {"temperature", 0.8}, {"top_k", 40}, {"seed", 7}, {"n", 2}});
  const GptRun generated = run_gpt({"generate", folder().string(), "--prompt", "Once", "-n", "20", "--seed",
                                    "7", "--num-samples", "2", "--json"});
  const json samples = json::parse(generated.out)["completions"];
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(drawn["choices"][i]["text"], samples[i]["text"]);
  const auto greatest = [&](int64_t k) {
    return server.post(
        "/v1/completions",
        {{"prompt", "Once"}, {"max_tokens", 20}, {"top_k", k}, {"seed", 7}})["choices"][0]["text"];
  };
  EXPECT_EQ(greatest(1000000), greatest(0)) << "more than the vocabulary: all of it";
}

TEST_F(Serve, StreamsEventsAsClientsExpectThem) {
  Server server(arguments());
  HttpClient client(server.port());
  const json whole = server.post("/v1/chat/completions", question());
  const json body =
      question({{"stream", true}, {"stream_options", {{"include_usage", true}}}, {"logprobs", true}});
  const HttpClient::Answer answer = client.post("/v1/chat/completions", body.dump());
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
  const std::vector<json> events = events_of(answer.body);
  ASSERT_GT(events.size(), 4u);
  EXPECT_EQ(events[0]["choices"][0]["delta"], json({{"role", "assistant"}, {"content", ""}}));
  std::string text;
  size_t logprobs = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    if (events[i]["choices"].empty()) continue;
    const json& choice = events[i]["choices"][0];
    text += choice["delta"].value("content", "");
    if (choice["logprobs"].is_object()) logprobs += choice["logprobs"]["content"].size();
    EXPECT_TRUE(events[i]["usage"].is_null());
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(logprobs, 12u);
  const size_t n = events.size();
  EXPECT_EQ(events[n - 3]["choices"][0]["delta"], json::object());
  EXPECT_EQ(events[n - 3]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[n - 2]["choices"], json::array());
  EXPECT_EQ(events[n - 2]["usage"]["completion_tokens"], 12);
  EXPECT_EQ(events[n - 1], "[DONE]");
  EXPECT_EQ(client.ask("GET", "/health").status, 200) << "the connection is kept";
}

TEST_F(Serve, EchoHasLogprobsOfThePromptAndTheEnd) {
  Server server(arguments());
  const json ids = server.post("/tokenize", {{"content", "Once upon"}})["tokens"];
  const json answer =
      server.post("/v1/completions", {{"prompt", ids}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 2}});
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].size(), ids.size() + 1);
  EXPECT_TRUE(choice["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  const size_t alternatives = choice["logprobs"]["top_logprobs"][1].size();
  EXPECT_TRUE(alternatives == 2 || alternatives == 3) << "the two most likely tokens, and the sampled token";
  EXPECT_EQ(choice["text"].get<std::string>().substr(0, 9), "Once upon");
  const json prompt_only = server.post(
      "/v1/completions", {{"prompt", "Once upon"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}});
  EXPECT_EQ(prompt_only["choices"][0]["logprobs"]["token_logprobs"].size(), ids.size());
  const json best = server.post(
      "/v1/completions",
      {{"prompt", json::array({"Once", "A"})}, {"best_of", 3}, {"n", 1}, {"max_tokens", 4}, {"seed", 1}});
  EXPECT_EQ(best["choices"].size(), 2u);
  EXPECT_EQ(best["usage"]["completion_tokens"], 24);
}

TEST_F(Serve, EmbeddingsTokensAndModels) {
  Server server(arguments());
  const json e = server.post("/v1/embeddings", {{"input", json::array({"a dog", "a cat"})}});
  ASSERT_EQ(e["data"].size(), 2u);
  double squares = 0;
  for (const json& x : e["data"][1]["embedding"])
    squares += x.get<double>() * x.get<double>();
  EXPECT_NEAR(squares, 1, 1e-5);
  const json packed = server.post("/v1/embeddings", {{"input", "a dog"}, {"encoding_format", "base64"}});
  EXPECT_EQ(packed["data"][0]["embedding"].get<std::string>().size(), (16u * 4 + 2) / 3 * 4);
  EXPECT_EQ(server.refused("/v1/embeddings", R"({"input":"a","dimensions":3})"), "dimensions");
  const json ids = server.post("/tokenize", {{"content", "a dog"}})["tokens"];
  EXPECT_EQ(server.post("/detokenize", {{"tokens", ids}})["content"], "a dog");
  EXPECT_TRUE(
      names(server.post("/apply-template", question())["prompt"].get<std::string>(), {"<|user_start|>"}));
  HttpClient client(server.port());
  const json models = json::parse(client.ask("GET", "/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["max_model_len"], 256);
  EXPECT_EQ(client.ask("GET", "/v1/models/other").status, 404);
}

TEST_F(Serve, TheLastMessageOfTheAssistantIsContinued) {
  Server server(arguments());
  json body = question();
  body["messages"].push_back({{"role", "assistant"}, {"content", "There"}});
  const json prompt = server.post("/apply-template", body);
  EXPECT_TRUE(prompt["prompt"].get<std::string>().ends_with("<|assistant_start|>There")) << prompt;
  EXPECT_EQ(server.post("/v1/chat/completions", body)["usage"]["prompt_tokens"], prompt["tokens"].size());
}

// Invalid requests get status 400 with the name of the wrong field, and the server keeps running.
TEST_F(Serve, WrongRequestsAreRefusedByName) {
  Server server(arguments());
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature":9)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":-1e308)", "temperature"},
      {R"("top_p":1.5)", "top_p"},
      {R"("top_k":99999999999999999999)", "top_k"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("presence_penalty":3)", "presence_penalty"},
      {R"("n":9)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":18446744073709551615)", "n"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("n_predict":5)", "n_predict"},
      {R"("repeat_penalty":1.1)", "repeat_penalty"},
      {R"("min_tokens":5)", "min_tokens"},
      {R"("typical_p":0.9)", "typical_p"},
      {R"("include_stop_str_in_output":true)", "include_stop_str_in_output"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("seed":1e300)", "seed"},
      {R"("stop":"")", "stop"},
      {R"("stop":[1])", "stop"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"1":1000})", "logit_bias.1"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}})",
       "response_format.json_schema.schema"},
      {R"("guided_regex":"(")", "guided_regex"},
      {R"("guided_choice":[])", "guided_choice"},
      {R"("grammar":"root ::= nothing")", "grammar"},
      {R"("grammar":"root ::= \"a\"","guided_regex":"a")", "guided_regex"},
      {R"("structured_outputs":{"xml":"a"})", "structured_outputs"},
      {R"("guided_regex":"[0-9]{100}","max_tokens":20)", "max_tokens"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}])", "tools"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("audio":{})", "audio"},
      {R"("stream_options":{})", "stream_options"},
      {R"("model":"other")", "model"},
  };
  for (const auto& [field, param] : cases) {
    const std::string body = R"({"messages":[{"role":"user","content":"x"}],)" + std::string(field) + "}";
    EXPECT_EQ(server.refused("/v1/chat/completions", body, param == std::string("model") ? 404 : 400), param)
        << field;
  }
  EXPECT_EQ(server.refused("/v1/chat/completions", R"({"messages":[]})"), "messages");
  EXPECT_EQ(server.refused("/v1/chat/completions", R"({"messages":[{"role":"king","content":"x"}]})"),
            "messages");
  EXPECT_EQ(server.refused("/v1/completions", R"({"prompt":[99999]})"), "prompt");
  EXPECT_EQ(server.refused("/v1/completions", R"({"prompt":"a","suffix":"b"})"), "suffix");
  EXPECT_EQ(server.refused("/v1/completions", R"({"prompt":"a","best_of":9})"), "best_of");
  EXPECT_EQ(server.refused("/v1/completions", R"({"prompt":"a","logprobs":21})"), "logprobs");
  const json long_prompts = std::vector<std::vector<int>>(128, std::vector<int>(250, 1));
  const json too_large = {{"prompt", long_prompts}, {"echo", true}, {"logprobs", 20}, {"max_tokens", 1}};
  EXPECT_EQ(server.refused("/v1/completions", too_large.dump()), "logprobs");
  for (const std::string& body :
       {std::string("{"), std::string("[]"), R"({"a":1,"a":2})" + std::string(),
        std::string("{\"messages\":\"\xff\"}"), R"({"temperature":1e400})" + std::string(),
        R"({"temperature":NaN})" + std::string(), R"({"messages":)" + std::string(10000, '[')})
    EXPECT_EQ(server.refused("/v1/chat/completions", body), "") << body.substr(0, 40);
  const json neutral = {{"typical_p", 1}, {"mirostat", 0}, {"min_tokens", 0}, {"use_beam_search", false}};
  EXPECT_EQ(server.post("/v1/chat/completions", question(neutral)).at("choices").size(), 1u);
}

// An almost untrained model must still follow the requested format.
TEST_F(Serve, AnswersHaveTheFormThatWasAskedFor) {
  Server server(arguments());
  const json schema = json::parse(R"({"type":"object","properties":{"name":{"enum":["Ann","Bo"]},
      "age":{"type":"integer","minimum":1,"maximum":99}},"required":["name","age"],"additionalProperties":false})");
  const json format = {{"type", "json_schema"}, {"json_schema", {{"name", "person"}, {"schema", schema}}}};
  const json more = {
      {"response_format", format}, {"max_tokens", 60}, {"temperature", 1}, {"n", 4}, {"seed", 1}};
  const json answer = server.post("/v1/chat/completions", question(more));
  for (const json& choice : answer["choices"]) {
    EXPECT_EQ(choice["finish_reason"], "stop");
    const json person = json::parse(choice["message"]["content"].get<std::string>());
    EXPECT_TRUE(person["name"] == "Ann" || person["name"] == "Bo") << person;
    EXPECT_TRUE(person["age"] >= 1 && person["age"] <= 99 && person.size() == 2) << person;
  }
  const auto complete = [&](const json& fields) {
    json body = {{"prompt", "Once"}, {"max_tokens", 40}, {"temperature", 1}};
    body.update(fields);
    return server.post("/v1/completions", body)["choices"][0]["text"].get<std::string>();
  };
  EXPECT_EQ(complete({{"guided_choice", {"\"yes\\no\"\n", "\"yes\\no\"\n"}}}), "\"yes\\no\"\n");
  EXPECT_EQ(complete({{"grammar", "root ::= \"ab\"{3}"}}), "ababab");
  EXPECT_EQ(complete({{"structured_outputs", {{"regex", "x{5}"}}}}), "xxxxx");
  EXPECT_TRUE(json::parse(complete({{"response_format", {{"type", "json_object"}}}})).is_object());
}

TEST_F(Serve, ToolsAreCalledWhereTheyMustBe) {
  const fs::path jinja = folder() / "tools.jinja";
  std::ofstream(jinja) << "{% if tools %}<tool_call>{% endif %}{% for m in messages %}"
                          "{% if m.role == 'assistant' %}<|assistant_start|>{{ m.content }}<|assistant_end|>"
                          "{% else %}<|user_start|>{{ m.content }}<|user_end|>{% endif %}{% endfor %}"
                          "{% if add_generation_prompt %}<|assistant_start|>{% endif %}";
  Server server({"tiny=" + folder().string(), "--template", jinja.string()});
  const auto tool = [](const std::string& name, const char* parameters) {
    return json{{"type", "function"},
                {"function", {{"name", name}, {"parameters", json::parse(parameters)}}}};
  };
  const json tools = {
      tool("weather", R"({"type":"object","properties":{"day":{"$ref":"#/$defs/day"}},"required":["day"],
                          "$defs":{"day":{"enum":["today","tomorrow"]}}})"),
      tool("stop", R"({"type":"object","properties":{}})")};
  const auto calls = [&](const json& choice) {
    const json fields = {
        {"tools", tools}, {"tool_choice", choice}, {"parallel_tool_calls", false}, {"max_tokens", 90}};
    const json answer = server.post("/v1/chat/completions", question(fields))["choices"][0];
    EXPECT_EQ(answer["finish_reason"], "tool_calls") << answer;
    EXPECT_EQ(answer["message"]["tool_calls"].size(), 1u) << answer;
    return answer["message"]["tool_calls"][0]["function"];
  };
  const json named = calls({{"type", "function"}, {"function", {{"name", "weather"}}}});
  EXPECT_EQ(named["name"], "weather");
  const json day = json::parse(named["arguments"].get<std::string>())["day"];
  EXPECT_TRUE(day == "today" || day == "tomorrow") << day;
  const json any = calls("required")["name"];
  EXPECT_TRUE(any == "weather" || any == "stop") << any;
  // With tools and a response format, the response is either tool calls or a message in this format.
  const json form = {{"type", "json_schema"},
                     {"json_schema", {{"name", "x"}, {"schema", {{"enum", {"yes", "no"}}}}}}};
  for (const int seed : {1, 2, 3, 4}) {
    const json both = {{"tools", tools},   {"response_format", form},
                       {"max_tokens", 90}, {"temperature", 2},
                       {"seed", seed},     {"parallel_tool_calls", false}};
    const json answer = server.post("/v1/chat/completions", question(both))["choices"][0];
    const json& message = answer["message"];
    if (answer["finish_reason"] == "tool_calls") {
      EXPECT_TRUE(message["content"].is_null()) << answer;
      EXPECT_EQ(message["tool_calls"].size(), 1u) << answer;
    } else {
      EXPECT_TRUE(message["content"] == "\"yes\"" || message["content"] == "\"no\"") << answer;
      EXPECT_FALSE(message.contains("tool_calls")) << answer;
    }
  }
  const json must = {
      {"tools", tools}, {"response_format", form}, {"tool_choice", "required"}, {"max_tokens", 90}};
  EXPECT_EQ(server.post("/v1/chat/completions", question(must))["choices"][0]["finish_reason"], "tool_calls");
  json wrong = {{"tools", {tool("f", R"({"not":{}})")}}, {"response_format", form}};
  EXPECT_EQ(server.refused("/v1/chat/completions", question(wrong).dump()), "tools");
}

TEST_F(Serve, LimitsOfHttp) {
  Server server(arguments({"--max-body", "2000"}));
  const auto status = [&](const std::string& bytes) {
    HttpClient client(server.port());
    client.send(bytes);
    return client.read_answer().status;
  };
  const std::string post =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  EXPECT_EQ(status(post + "Content-Length: 999999999\r\n\r\n"), 413);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n1000\r\n" + std::string(0x1000, ' ')), 413);
  EXPECT_EQ(status(post + "Content-Length: -1\r\n\r\n"), 400);
  for (const char* size : {"-1", "fffffffffffffffff", "x"})
    EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n" + size + "\r\n"), 400) << size;
  std::string trailers;
  for (int i = 0; i < 5000; ++i)
    trailers += "X" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + trailers), 431);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n4;x=" + std::string(50000, 'y')), 431);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20000, 'x')), 431);
  std::string many;
  for (int i = 0; i < 101; ++i)
    many += "X" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(status("GET /health HTTP/1.1\r\n" + many + "\r\n"), 431);
  EXPECT_EQ(status("rubbish\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404);
  HttpClient client(server.port());
  EXPECT_EQ(client.ask("PUT", "/v1/completions").headers["allow"], "POST");
  EXPECT_EQ(client.ask("POST", "/v1/completions", "{}", "Content-Type: text/plain\r\n").status, 415);
  for (const char* method : {"GET", "OPTIONS"}) {
    const HttpClient::Answer answer = client.ask(method, "/v1/models", "", "Origin: http://evil\r\n");
    EXPECT_EQ(answer.status, method == std::string("GET") ? 200 : 405);
    for (const auto& [name, value] : answer.headers)
      EXPECT_FALSE(name.starts_with("access-control")) << name;
  }
}

TEST_F(Serve, GuardsAgainstStrangers) {
  const gpt::test::TempDir dir;
  gpt::test::write_plain_file(dir.file("keys"), "# clients\n0123456789abcdef-one\n0123456789abcdef-two\n");
  Server server(arguments({"--api-key-file", dir.file("keys")}));
  HttpClient client(server.port());
  const auto with = [&](const std::string& header) {
    return client.ask("GET", "/v1/models", "", header).status;
  };
  EXPECT_EQ(with(""), 401);
  EXPECT_EQ(with("Authorization: Bearer 0123456789abcdef-on\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer 0123456789abcdef-two\r\n"), 200);
  EXPECT_EQ(client.ask("GET", "/health").status, 200);
  EXPECT_EQ(client.ask("GET", "/health", "", "Host: evil.example\r\n").status, 421);
  EXPECT_EQ(server.process().notes().find("0123456789abcdef"), std::string::npos);

  const GptRun open = run_gpt({"serve", folder().string(), "--host", "0.0.0.0", "--port", "0"});
  EXPECT_EQ(open.status, 2);
  EXPECT_TRUE(names(open.err, {"--host 0.0.0.0", "--api-key-file FILE", "--insecure"}));
}

// A client that disconnects, or closes its sending side, cancels its request.
TEST_F(Serve, DisconnectsCancel) {
  Server server(arguments());
  const std::string running = "gptcpp_sequences_running{model=\"tiny\"}";
  for (const bool half : {false, true}) {
    HttpClient client(server.port());
    const std::string body = question({{"max_tokens", 200}, {"stream", true}, {"n", 8}}).dump();
    client.send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_TRUE(client.read_until("data: "));
    half ? client.half_close() : client.close();
    EXPECT_TRUE(server.wait_for_metric(running, 0));
    EXPECT_TRUE(server.process().wait_until([&] { return server.metric("gptcpp_connections") == 1; }));
  }
  EXPECT_EQ(server.post("/v1/chat/completions", question()).at("choices").size(), 1u);
}

TEST_F(Serve, EndsWhenAllAcceptedRequestsHaveTheirAnswers) {
  Server server(arguments());
  std::vector<std::thread> clients;
  std::vector<HttpClient::Answer> answers(8);
  std::atomic<bool> answered = false;  // after that, the signal would find no running request
  for (HttpClient::Answer& answer : answers)
    clients.emplace_back([&] {
      HttpClient client(server.port());
      answer = client.post("/v1/chat/completions", question({{"max_tokens", 200}, {"stream", true}}).dump());
      answered = true;
    });
  EXPECT_TRUE(server.process().wait_until(
      [&] { return answered || server.metric("gptcpp_sequences_running{model=\"tiny\"}") > 0; }));
  server.process().send(SIGTERM);
  for (std::thread& client : clients)
    client.join();
  for (const HttpClient::Answer& answer : answers) {
    // Requests that arrive after the signal get status 503 or no response.
    if (answer.status == 200) {
      EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
    } else {
      EXPECT_TRUE(answer.status == 503 || answer.status == 0) << answer.status;
    }
  }
  EXPECT_EQ(server.process().end(), 0) << server.process().notes();
}

TEST_F(Serve, ARequestThatIsOnItsWayAtTheEndIsToldSo) {
  Server server(arguments());
  HttpClient client(server.port());
  const std::string body = question().dump();
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  const size_t before = server.process().notes().size();
  server.process().send(SIGTERM);
  EXPECT_TRUE(server.process().wait_until([&] { return server.process().notes().size() > before; }));
  client.send(body);
  EXPECT_EQ(client.read_answer().status, 503);
  EXPECT_EQ(server.process().end(), 0);
}

TEST_F(Serve, CachedBeginningsAreNotSharedAcrossKeysAndSalts) {
  const fs::path keys = folder() / "keys";
  const std::string first = "first-key-0123456789", second = "second-key-0123456789";
  std::ofstream(keys) << first << "\n" << second << "\n";
  Server server(arguments({"--api-key-file", keys.string(), "--rate", "5"}));
  const auto ask = [&](const std::string& key, const json& more) {
    HttpClient client(server.port());
    return client.ask("POST", "/v1/chat/completions", question(more).dump(),
                      "Authorization: Bearer " + key + "\r\n");
  };
  const auto cached = [&](const std::string& key, const json& more) {
    const HttpClient::Answer answer = ask(key, more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached(first, {}), 0);
  EXPECT_GT(cached(first, {}), 0);
  EXPECT_EQ(cached(second, {}), 0);
  EXPECT_EQ(cached(first, {{"cache_salt", "a"}}), 0);
  EXPECT_GT(cached(first, {{"cache_salt", "a"}}), 0);
  EXPECT_EQ(cached(second, {{"cache_salt", "a"}}), 0);
  EXPECT_GT(cached(first, {}), 0);
  HttpClient::Answer sixth = ask(first, {});
  EXPECT_EQ(sixth.status, 429);
  EXPECT_GE(std::stoi(sixth.headers["retry-after"]), 1);
  EXPECT_EQ(ask(second, {}).status, 200);
}

// gpt chat URL gives the same responses as gpt chat with the same model.
TEST_F(Serve, ChatsOverItsAddress) {
  Server server(arguments());
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  const auto lines = [&](const std::vector<std::string>& model, const std::string& input) {
    std::vector<std::string> words = {"chat"};
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), {"--greedy", "--max-tokens", "8", "--json"});
    const GptRun run = run_gpt(words, {}, input);
    EXPECT_EQ(run.status, 0) << run.err;
    json texts = json::array();
    std::istringstream out(run.out);
    for (std::string line; std::getline(out, line);)
      texts.push_back(json::parse(line)["text"]);
    return texts;
  };
  const std::string input = "Once upon a time\nAnd then?\n/reset\nOnce upon a time\n";
  const json here = lines({folder().string(), "--template", "nanochat"}, input);
  ASSERT_EQ(here.size(), 3u);
  for (const auto& there : {lines({url}, input), lines({url + "/v1/", "--server-model", "tiny"}, input)}) {
    ASSERT_EQ(there.size(), 3u);
    // Only the first turn is equal: later prompts encode the response text instead of its sampled tokens.
    EXPECT_EQ(there[0], here[0]);
    EXPECT_EQ(there[2], here[0]);
    EXPECT_NE(there[1], here[0]);
  }
  const auto refused = [&](const std::vector<std::string>& words, int status, const Facts& facts) {
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  };
  refused({"chat", url, "Hi", "--server-model", "other"}, 1, {url, "\"other\"", "GET /v1/models", 404});
  refused({"chat", url + "/none", "Hi"}, 1, {url + "/none", "/none/models", 404});
  refused({"chat", url, "Hi", "--n-ctx", "128"}, 2, {"--n-ctx", url});
  refused({"chat", "https://127.0.0.1", "Hi"}, 2, {"https://127.0.0.1", "http://HOST:PORT", "TLS"});
  refused({"chat", "http://127.0.0.1:1", "Hi"}, 1, {"http://127.0.0.1:1"});
  refused({"chat", "http://127.0.0.1:99999", "Hi"}, 2, {"http://127.0.0.1:99999", "http://HOST:PORT"});
}

TEST_F(Serve, LogsRequestsWithoutTheirText) {
  Server server(arguments());
  HttpClient client(server.port());
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_EQ(client.ask("POST", "/v1/chat/completions", question().dump(), "traceparent: " + trace + "\r\n")
                .headers["traceparent"],
            trace);
  EXPECT_TRUE(server.process().wait_for_note(trace));
  EXPECT_TRUE(names(server.process().notes(), {R"("model":"tiny")"}));
  EXPECT_EQ(server.process().notes().find("Once upon"), std::string::npos);
}

TEST_F(Serve, MakesATracePageOfAConversation) {
  Server server(arguments());
  HttpClient client(server.port());
  const json messages = question()["messages"];
  const HttpClient::Answer page = client.post("/trace", json({{"messages", messages}}).dump());
  EXPECT_EQ(page.status, 200) << page.body.substr(0, 300);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_TRUE(names(page.body, {"gpt trace"}));
  EXPECT_EQ(server.refused("/trace", "{}"), "prompt");
}

}  // namespace

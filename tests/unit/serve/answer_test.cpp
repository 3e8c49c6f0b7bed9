// Tests the responses for clients: choices that grow token by token, events and tool calls.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"
#include "serve/openai/answer_format.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

const Tokenizer& bytes() {
  static const auto tokenizer = make_byte_tokenizer();
  return *tokenizer;
}

// A tokenizer whose tokens are the given texts.
class Texts : public Tokenizer {
 public:
  explicit Texts(std::map<int32_t, std::string> texts) : texts_(std::move(texts)) {}
  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return 16; }
  std::vector<int32_t> encode(std::string_view) const override { return {}; }
  std::string token_bytes(int32_t id) const override { return texts_.at(id); }
  std::string to_json() const override { return ""; }

 private:
  std::map<int32_t, std::string> texts_;
};

// Pushes a response whose tokens are single bytes, and returns its pieces up to the end.
std::vector<AnswerPiece> pieces_of(AnswerChoice& choice, const std::string& text,
                                   std::optional<FinishReason> finish = FinishReason::length) {
  std::vector<AnswerPiece> pieces;
  for (size_t i = 0; i < text.size() && choice.finish() == nullptr; ++i) {
    const auto id = static_cast<int32_t>(static_cast<unsigned char>(text[i]));
    const Logprobs logprobs{{id, -1}, {}};
    Event event{.id = id, .logprobs = &logprobs};
    if (i + 1 == text.size()) event.finish = finish;
    pieces.push_back(choice.push(event));
  }
  return pieces;
}

AnswerPiece whole(const std::vector<AnswerPiece>& pieces) {
  AnswerPiece all;
  for (const AnswerPiece& piece : pieces) {
    EXPECT_FALSE(first_invalid_utf8(piece.text));
    all.text += piece.text;
    all.tokens.insert(all.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    all.calls.insert(all.calls.end(), piece.calls.begin(), piece.calls.end());
  }
  return all;
}

TEST(AnswerChoice, TokensComeWithTheirLastByte) {
  AnswerChoice choice(&bytes(), {});
  const auto pieces = pieces_of(choice, "a\xe2\x82\xac");
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[0].tokens.size(), 1u);
  EXPECT_TRUE(pieces[1].empty() && pieces[2].empty());
  EXPECT_EQ(pieces[3].text, "\xe2\x82\xac");
  EXPECT_EQ(pieces[3].tokens.size(), 3u);
  EXPECT_STREQ(choice.finish(), "length");
}

TEST(AnswerChoice, AStopStringAndItsTokensAreNoPartOfTheAnswer) {
  AnswerChoice choice(&bytes(), {.stops = {"END"}});
  const AnswerPiece all = whole(pieces_of(choice, "an ENEND more"));
  EXPECT_EQ(all.text, "an EN");
  EXPECT_EQ(all.tokens.size(), 5u);
  EXPECT_STREQ(choice.finish(), "stop");
  EXPECT_EQ(choice.tokens(), 8);
}

TEST(AnswerChoice, TokensInFrontOfAStopStringAreCountedByCharacters) {
  AnswerChoice choice(&bytes(), {.stops = {"END"}, .drop_blank = true});
  const AnswerPiece all = whole(pieces_of(choice, " abEND"));
  EXPECT_EQ(all.text, "ab");
  EXPECT_EQ(all.tokens.size(), 3u) << "the blank that is dropped is a token";
  AnswerChoice broken(&bytes(), {.stops = {"END"}});
  EXPECT_EQ(whole(pieces_of(broken,
                            "\xff\xff"
                            "END"))
                .tokens.size(),
            2u);
}

TEST(AnswerChoice, TokensBeginWhereTheirTextDoes) {
  AnswerChoice choice(&bytes(), {.first_char = 5});
  std::vector<int64_t> offsets;
  const AnswerPiece all = whole(pieces_of(choice,
                                          "a\xff\x80\xe2\x82"
                                          "b\xc3\xa4"
                                          "c"));
  EXPECT_EQ(all.text, replace_invalid_utf8("a\xff\x80\xe2\x82"
                                           "b\xc3\xa4"
                                           "c"));
  for (const TokenEntry& entry : all.tokens)
    offsets.push_back(entry.offset);
  EXPECT_EQ(offsets, (std::vector<int64_t>{5, 6, 7, 8, 9, 9, 10, 11, 11}));
}

TEST(AnswerChoice, TheEndingTokenHasNoTextAndItsLogprobOnlyWhereWanted) {
  for (const bool keep : {false, true}) {
    AnswerChoice choice(&bytes(), {.keep_end = keep});
    const AnswerPiece all = whole(pieces_of(choice, "abc", FinishReason::eos));
    EXPECT_EQ(all.text, "ab");
    EXPECT_EQ(all.tokens.size(), keep ? 3u : 2u);
    EXPECT_STREQ(choice.finish(), "stop");
  }
}

TEST(AnswerChoice, BrokenBytesBecomeReplacementCharacters) {
  AnswerChoice choice(&bytes(), {});
  EXPECT_EQ(whole(pieces_of(choice, "a\xff\xe2\x82")).text, "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ToolCalls, AreFoundBesideText) {
  AnswerChoice choice(&bytes(), {.tools = {{ToolFormat::hermes}}});
  const AnswerPiece all = whole(pieces_of(choice,
                                          "Let me see <b>.\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
                                          "{\"b\": 1, \"a\": \"}\"}}\n</tool_call>\n"
                                          "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>x",
                                          FinishReason::eos));
  EXPECT_EQ(all.text, "Let me see <b>.\n");
  ASSERT_EQ(all.calls.size(), 2u);
  EXPECT_EQ(all.calls[0].name, "f");
  EXPECT_EQ(all.calls[0].arguments, "{\"b\":1,\"a\":\"}\"}");
  EXPECT_STREQ(choice.finish(), "tool_calls");
}

TEST(ToolCalls, AreFoundInOnePiece) {
  ToolCallParser parser({ToolFormat::hermes});
  const ToolCallParser::Found found = parser.push(
      "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n"
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(found.calls.size(), 2u);
  EXPECT_EQ(found.text, "");
}

TEST(ToolCalls, ArgumentsKeepTheDigitsOfTheirNumbers) {
  ToolCallParser parser({ToolFormat::hermes});
  const ToolCallParser::Found found = parser.push(
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"id\": 12345678901234567890123, \"u\": "
      "[18446744073709551615, -9223372036854775809], \"x\": [1e22, 1.0, 1e-7]}}</tool_call>");
  ASSERT_EQ(found.calls.size(), 1u);
  EXPECT_EQ(found.calls[0].arguments,
            "{\"id\":12345678901234567890123,\"u\":[18446744073709551615,-9223372036854775809],"
            "\"x\":[1e+22,1.0,1e-07]}");
}

TEST(ToolCalls, WhatIsNoneStaysText) {
  for (const char* text : {"<tool_call>{\"name\": 3}</tool_call>", "<tool_call>{\"name\":\"f\"", "a <tool_c",
                           "<tool_call>[[[</tool_call>"}) {
    AnswerChoice choice(&bytes(), {.tools = {{ToolFormat::hermes}}});
    EXPECT_EQ(whole(pieces_of(choice, text)).text, text);
    EXPECT_STREQ(choice.finish(), "length");
  }
}

TEST(ToolCalls, OfLlama3AreTheWholeAnswer) {
  const auto answer = [](const std::string& text) {
    AnswerChoice choice(&bytes(), {.tools = {{ToolFormat::llama3}}});
    return whole(pieces_of(choice, text + "x", FinishReason::stop));
  };
  EXPECT_EQ(answer("{\"name\":\"f\",\"parameters\":{\"x\":1}}").calls.size(), 1u);
  EXPECT_EQ(answer("<|python_tag|>{\"name\":\"f\",\"parameters\":{}}").calls.size(), 1u);
  EXPECT_EQ(answer("{\"x\":1}").text, "{\"x\":1}");
  EXPECT_EQ(answer("Hello {\"name\"").text, "Hello {\"name\"");
}

TEST(ToolCalls, OneCallEndsTheAnswer) {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const ToolCallOptions one{.format = ToolFormat::hermes, .one_call = true};
  for (const std::string between : {"", "\n", " and "}) {
    AnswerChoice choice(&bytes(), {.tools = one});
    const AnswerPiece all = whole(pieces_of(choice, "a" + call + between + call, FinishReason::eos));
    EXPECT_EQ(all.text, "a");
    EXPECT_EQ(all.calls.size(), 1u);
    EXPECT_EQ(choice.tokens(), std::ssize("a" + call));
    EXPECT_STREQ(choice.finish(), "tool_calls");
  }
  ToolCallParser parser(one);
  EXPECT_EQ(parser.push(call + call + "text").calls.size(), 1u) << "in one piece";
  EXPECT_TRUE(parser.ended());
  EXPECT_EQ(parser.push(call).calls.size() + parser.finish().calls.size(), 0u);
  AnswerChoice none(&bytes(), {.tools = one});
  EXPECT_EQ(whole(pieces_of(none, "<tool_call>{}</tool_call>" + call)).calls.size(), 1u)
      << "the first is no call";
}

TEST(ToolCalls, AnAnswerOfAFormQuotesCalls) {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const auto answer = [&](const std::string& text, ToolFormat format) {
    AnswerChoice choice(&bytes(), {.tools = {{.format = format, .from_start = true, .names = {"f"}}}});
    return whole(pieces_of(choice, text + "x", FinishReason::stop));
  };
  EXPECT_EQ(answer(call + "\n" + call, ToolFormat::hermes).calls.size(), 2u);
  for (const std::string& text : {"\"" + call + "\"", "<tool" + call, std::string("<"), " " + call}) {
    EXPECT_EQ(answer(text, ToolFormat::hermes).text, text);
    EXPECT_EQ(answer(text, ToolFormat::hermes).calls.size(), 0u);
  }
  EXPECT_EQ(answer(R"({"name":"f","parameters":{}})", ToolFormat::llama3).calls.size(), 1u);
  EXPECT_EQ(answer(R"({"name":"g","parameters":{}})", ToolFormat::llama3).calls.size(), 0u) << "no tool";
}

TEST(ToolCalls, FormatsAreToldByTheTemplate) {
  EXPECT_EQ(tool_format_of("{{ tools }} <tool_call>"), ToolFormat::hermes);
  EXPECT_EQ(tool_format_of("{{ tools }} <|python_tag|>"), ToolFormat::llama3);
  EXPECT_EQ(tool_format_of("{{ messages }}"), std::nullopt);
}

json data_of(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n")) << event;
  return json::parse(event.substr(6));
}

TEST(AnswerFormat, ChunksOfAChat) {
  const AnswerFormat format(
      {.chat = true, .id = "chatcmpl-1", .model = "a\"b", .created = 7, .tokenizer = &bytes()});
  AnswerFormat::Progress progress{.index = 2};
  std::string out;
  format.role_chunk(out, 2);
  EXPECT_EQ(data_of(out),
            json::parse(R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"a\"b",
    "system_fingerprint":"gptcpp","choices":[{"index":2,"delta":{"role":"assistant","content":""},"logprobs":null,
    "finish_reason":null}]})"));
  out.clear();
  format.chunk(out, progress, {.text = "\n\"", .calls = {{"f", "{}"}}}, nullptr);
  const json choice = data_of(out)["choices"][0];
  EXPECT_EQ(choice["delta"]["content"], "\n\"");
  EXPECT_EQ(choice["delta"]["tool_calls"][0]["function"], json({{"name", "f"}, {"arguments", "{}"}}));
  EXPECT_EQ(choice["delta"]["tool_calls"][0]["index"], 0);
  out.clear();
  format.chunk(out, progress, {.calls = {{"g", "{}"}}}, nullptr);
  EXPECT_EQ(data_of(out)["choices"][0]["delta"]["tool_calls"][0]["index"], 1);
  out.clear();
  format.chunk(out, progress, {}, "stop");
  EXPECT_EQ(data_of(out)["choices"][0]["delta"], json::object());
}

TEST(AnswerFormat, LogprobsOfACompletion) {
  const AnswerFormat format(
      {.chat = false, .id = "cmpl-1", .model = "m", .logprobs = true, .tokenizer = &bytes()});
  AnswerPiece all{.text = "\xc3\xa4z"};
  all.tokens = {{0xc3, {{0xc3, std::nan("")}, {}}, 0},
                {0xa4, {{0xa4, -1}, {{0xa4, -1}}}, 1},
                {'z', {{'z', -2}, {{'y', -1}}}, 1}};
  const json choice = json::parse(format.whole({{all, "length"}}, {}))["choices"][0];
  EXPECT_EQ(choice["logprobs"],
            json::parse(R"({"tokens":["bytes:\\xc3","bytes:\\xa4","z"],"token_logprobs":[null,-1.0,-2.0],
    "top_logprobs":[null,{"bytes:\\xa4":-1.0},{"y":-1.0,"z":-2.0}],"text_offset":[0,1,1]})"));
}

// A SentencePiece vocabulary contains "A" twice, as a normal token and as a byte token. Tokens 6 and 7 of
// this test have texts that look like the names of other tokens.
TEST(AnswerFormat, TopLogprobsHaveAKeyForEveryToken) {
  const std::map<int32_t, std::string> texts = {{1, "A"},           {2, "A"},          {3, "A"}, {4, "\xe2"},
                                                {5, "bytes:\\xe2"}, {6, "token_id:3"}, {7, "B"}};
  const Texts tokenizer(texts);
  const AnswerFormat format(
      {.chat = false, .id = "cmpl-1", .model = "m", .logprobs = true, .tokenizer = &tokenizer});
  const auto top_of = [&](int32_t chosen, const std::vector<int32_t>& top) {
    TokenEntry entry{chosen, {{chosen, -static_cast<double>(chosen)}, {}}};
    for (const int32_t id : top)
      entry.logprobs.top.push_back({id, -static_cast<double>(id)});
    AnswerPiece all;
    all.tokens = {entry};
    // This parser reports duplicate keys as an error.
    return parse_json(format.whole({{all, "length"}}, {}), "the answer")["choices"][0]["logprobs"];
  };
  EXPECT_EQ(top_of(1, {1, 2, 7})["top_logprobs"][0], json({{"A", -1}, {"token_id:2", -2}, {"B", -7}}));
  const json second = top_of(2, {1, 2, 3});
  EXPECT_EQ(second["tokens"][0], "A");
  EXPECT_EQ(second["top_logprobs"][0], json({{"token_id:1", -1}, {"A", -2}, {"token_id:3", -3}}))
      << "the chosen token has its text";
  EXPECT_EQ(top_of(3, {1})["top_logprobs"][0], json({{"token_id:1", -1}, {"A", -3}}));
  EXPECT_EQ(top_of(7, {4, 5})["top_logprobs"][0], json({{"bytes:\\xe2", -4}, {"token_id:5", -5}, {"B", -7}}));
  const json named = top_of(6, {1, 2, 3});
  EXPECT_EQ(named["tokens"][0], "token_id:6");
  EXPECT_EQ(named["top_logprobs"][0],
            json({{"A", -1}, {"token_id:2", -2}, {"token_id:3", -3}, {"token_id:6", -6}}));
}

}  // namespace
}  // namespace gpt::serve

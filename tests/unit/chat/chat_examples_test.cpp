#include "chat/chat_examples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "chat/chat_conversations.h"
#include "chat/conversation.h"
#include "chat/model_text.h"
#include "convert/gguf_export.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using Json = nlohmann::ordered_json;
using test::Fact;
using test::names;
using test::refused;

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> loaded =
      load_tokenizer(GPT_SOURCE_DIR "/tests/data/chat.tokenizer.json");
  return *loaded;
}

const char* const kOpenAi =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
const char* const kShareGpt =
    R"({"id": 1, "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})";

class ChatExamplesOf : public testing::Test {
 protected:
  ChatExamples parse(const std::string& text, const ChatExampleOptions& options = {}) const {
    return parse_chat_examples(text, "d.jsonl", chat_, options);
  }
  std::string text_of(const ChatExample& example) const { return tokenizer().decode(example.ids); }

  const ChatTemplate chat_{ChatFormat::chatml, tokenizer()};
};

TEST_F(ChatExamplesOf, NothingToLearnIsABadLineWithItsReason) {
  const std::string unweighted = R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b", "weight": 0}, {"role": "user", "content": "c"},
      {"role": "assistant", "content": "d", "weight": 0}]})",
                    unanswered = R"({"messages": [{"role": "user", "content": "a"}]})";
  const auto line = [](std::string text) {
    std::erase(text, '\n');
    return text + "\n";
  };
  EXPECT_TRUE(refused([&] { parse(line(unweighted)); }, "d.jsonl:1", {"\"weight\"", 0, 2}));
  EXPECT_TRUE(refused([&] { parse(line(unanswered)); }, "d.jsonl:1", {"assistant"}));
  const ChatExamples rest = parse(line(unweighted) + line(unanswered) + kOpenAi, {.skip_bad = true});
  EXPECT_EQ(rest.examples.size(), 1u);
  EXPECT_EQ(rest.counts.bad, 2);
}

TEST_F(ChatExamplesOf, TwoWaysOfWritingAreOne) {
  const ChatExamples read = parse(std::string(kOpenAi) + "\n\n" + kShareGpt + "\r\n");
  ASSERT_EQ(read.examples.size(), 2u);
  EXPECT_EQ(read.examples[0].ids, read.examples[1].ids);
  EXPECT_EQ(read.examples[0].weights, read.examples[1].weights);
  EXPECT_EQ(read.counts.lines, 2);
  EXPECT_EQ(read.counts.ids, 2 * std::ssize(read.examples[0].ids));
  EXPECT_EQ(read.counts.counted, 4);
  const std::string preview = preview_chat_example(read.examples[0], tokenizer(), false),
                    text = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n«b<|im_end|>»\n";
  EXPECT_TRUE(preview.starts_with(text)) << preview;
  EXPECT_TRUE(names(preview.substr(text.size()), {2, read.examples[0].ids.size()}));
  EXPECT_NE(preview_chat_example(read.examples[0], tokenizer(), true).find("\x1b[32mb<|im_end|>\x1b[0m"),
            std::string::npos);
}

TEST_F(ChatExamplesOf, PartsOfTextAreJoined) {
  const ChatExamples parts = parse(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "c"}]},)"
      R"( {"role": "assistant", "content": [{"type": "text", "text": "b"}]}]})");
  const ChatExamples text =
      parse(R"({"messages": [{"role": "user", "content": "a\nc"}, {"role": "assistant", "content": "b"}]})");
  ASSERT_EQ(parts.examples.size(), 1u);
  EXPECT_EQ(parts.examples[0].ids, text.examples[0].ids);
  const std::string image =
      "\n"
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, )"
      R"({"type": "image_url", "image_url": {}}]}, {"role": "assistant", "content": "b"}]})";
  EXPECT_TRUE(refused([&] { parse(image); }, "d.jsonl:2", {"message 1", "part 2", "image_url"}));
}

TEST_F(ChatExamplesOf, APreviewNeverWritesControlCharacters) {
  const ChatExamples read = parse(
      R"({"messages": [{"role": "user", "content": "\u001b[2J"}, {"role": "assistant", "content": "\u0007"}]})");
  const std::string text = preview_chat_example(read.examples[0], tokenizer(), false);
  EXPECT_EQ(text.find_first_of("\x1b\x07"), std::string::npos) << text;
}

TEST(ChatConversations, KeepToolsAndTheirOrder) {
  const Json call = parse_conversation(
      R"({"tools": "[{\"z\": 1, \"a\": 2}]", "system": "s", "conversations": [{"from": "human", "value": "q"},
          {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": 2}}"},
          {"from": "observation", "value": "r"}, {"from": "gpt", "value": "x"}]})",
      "d:1");
  EXPECT_EQ(call["tools"].dump(), R"([{"z":1,"a":2}])");
  EXPECT_EQ(call["messages"].dump(),
            R"([{"role":"system","content":"s"},{"role":"user","content":"q"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"type":"function","function":)"
            R"({"name":"f","arguments":{"z":1,"a":2}}}]},)"
            R"({"role":"tool","content":"r"},{"role":"assistant","content":"x"}])");
  const Json textual = parse_conversation(
      R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f",
          "arguments": "{\"z\": 1, \"a\": [2]}"}}]}]})",
      "d:1");
  EXPECT_EQ(textual["messages"][0]["tool_calls"][0]["function"]["arguments"].dump(), R"({"z":1,"a":[2]})");
  const Json big = parse_conversation(
      R"({"tools": [{"x": 18446744073709551616}], "messages": [{"role": "assistant", "content": null, "tool_calls": [
          {"function": {"name": "f", "arguments": "{\"id\": 12345678901234567890123}"}},
          {"function": {"name": "f", "arguments": {"id": -9223372036854775809}}}]}]})",
      "d:1");
  EXPECT_EQ(json_text(big["tools"]), R"([{"x":18446744073709551616}])");
  const Json& calls = big["messages"][0]["tool_calls"];
  EXPECT_EQ(json_text(calls[0]["function"]["arguments"]), R"({"id":12345678901234567890123})");
  EXPECT_EQ(json_text(calls[1]["function"]["arguments"]), R"({"id":-9223372036854775809})");
}

TEST_F(ChatExamplesOf, ErrorsNameTheLine) {
  const std::string good = std::string(kOpenAi) + "\n";
  const auto expect = [&](const std::string& line, std::initializer_list<Fact> facts) {
    EXPECT_TRUE(refused([&] { parse(good + line + "\n"); }, "d.jsonl:2", facts)) << line;
    const ChatExamples rest = parse(good + line + "\n" + good, {.skip_bad = true});
    EXPECT_EQ(rest.examples.size(), 2u);
    EXPECT_EQ(rest.counts.bad, 1);
    EXPECT_TRUE(rest.counts.first_bad.starts_with("d.jsonl:2"));
    EXPECT_TRUE(names(rest.counts.first_bad, facts));
  };
  expect("{", {"JSON"});
  expect("[]", {});
  expect("{}", {"messages", "conversations"});
  expect(R"({"messages": []})", {1, 0});
  expect(R"({"messages": {}})", {"messages"});
  expect(R"({"messages": [1]})", {"message 1"});
  expect(R"({"messages": [{"role": "user", "content": "a"}]})", {"assistant"});
  expect(R"({"messages": [{"content": "a"}]})", {"message 1", "role"});
  expect(R"({"messages": [{"role": "judge", "content": "a"}]})", {"message 1", "judge"});
  expect(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]})",
         {"message 2", "content"});
  expect(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
         {"message 1", "part 1", "content"});
  expect(R"({"messages": [{"role": "user", "content": "a", "tool_calls": []}]})",
         {"message 1", "tool_calls", "user"});
  expect(R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}]})",
         {"message 1", "tool_calls", "function", "name"});
  expect(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null,)"
         R"( "tool_calls": [{"function": {"name": "look"}}]}]})",
         {"look", "chatml"});
  expect(R"({"conversations": [{"from": "dog", "value": "a"}]})", {"message 1", "from", "dog"});
  expect(R"({"conversations": [{"from": "gpt", "value": 1}]})", {"message 1", "value"});
  expect(R"({"conversations": [{"from": "function_call", "value": "f x"}]})", {"message 1", "function_call"});
  expect(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}]})", {1, 0});
  expect(R"({"messages": [{"role": "assistant", "content": "a"}], "tools": 1})", {"tools"});
  for (const char* weight : {"2", "-1", "0.5", "true", R"("1")", "[0]", "123456789012345678901"})
    expect(fmt::format(R"({{"messages": [{{"role": "assistant", "content": "a", "weight": {}}}]}})", weight),
           {"message 1", "weight", 0, 1, weight});
  expect(R"({"messages": [{"role": "assistant", "content": 123456789012345678901}]})",
         {"message 1", "content", "number"});
}

TEST_F(ChatExamplesOf, WeightsOfMessagesAreZeroOrOne) {
  const auto counted = [&](const std::string& weight) {
    const std::string begin =
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": )";
    return parse(begin + weight + R"(}, {"role": "assistant", "content": "b"}]})").counts.counted;
  };
  const int64_t one = counted("0");
  EXPECT_GT(one, 0);
  for (const char* weight : {"1", "1.0", "null"})
    EXPECT_EQ(counted(weight), 2 * one) << weight;
  EXPECT_EQ(counted("0.0"), one);
}

TEST_F(ChatExamplesOf, AreAsLongAsIsAllowed) {
  const std::string turn =
      R"({"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"})";
  const std::string line =
      R"({"messages": [{"role": "system", "content": "s"}, )" + turn + ", " + turn + ", " + turn + "]}";
  const auto all = static_cast<int64_t>(parse(line).examples[0].ids.size());
  EXPECT_EQ(parse(line, {.n_ctx = all - 1}).examples.size(), 1u) << "the last id is only predicted";
  const ChatExamples dropped = parse(line, {.n_ctx = all - 2});
  EXPECT_EQ(dropped.examples.size(), 0u);
  EXPECT_EQ(dropped.counts.dropped, 1);
  const ChatExamples cut = parse(line, {.n_ctx = all - 2, .too_long = TooLong::truncate});
  ASSERT_EQ(cut.examples.size(), 1u);
  EXPECT_EQ(cut.counts.truncated, 1);
  const std::string two = R"({"messages": [{"role": "system", "content": "s"}, )" + turn + ", " + turn + "]}";
  EXPECT_EQ(cut.examples[0].ids, parse(two).examples[0].ids);
  EXPECT_EQ(parse(line, {.n_ctx = 5, .too_long = TooLong::truncate}).counts.dropped, 1);
  for (const bool skip_bad : {false, true}) {
    const ChatExampleOptions options{.n_ctx = all - 2, .too_long = TooLong::error, .skip_bad = skip_bad};
    EXPECT_TRUE(refused([&] { parse(line, options); }, "d.jsonl:1", {all}));
  }
}

// A model folder and a GGUF file contain the same text of the chat template. The template gives the same ids
// in training and in chat.
TEST(ChatTemplates, TrainingChatAndExportAgree) {
  const std::string jinja = read_file(GPT_SOURCE_DIR "/tests/data/chat_templates/qwen2_5.jinja");
  const test::RandomModel random(
      test::make_config({"t", "gpt2", fmt::format(R"({{"vocab_size": {}}})", tokenizer().vocab_size())}),
      DType::f32);
  const test::TempDir dir;
  write_gguf(dir.file("m.gguf"), random.model, random.model.weights, &tokenizer(),
             {.chat_templates = {{kDefaultTemplate, jinja}}});
  const LoadedModel loaded(dir.file("m.gguf"));
  const auto exported_tokenizer = model_tokenizer(loaded, "");
  const ChatTemplate exported = model_chat_template(loaded, *exported_tokenizer, "", "template");
  const ChatTemplate own({.name = "own", .jinja = jinja}, tokenizer());
  EXPECT_EQ(exported.jinja(), own.jinja());
  EXPECT_EQ(exported.end_id(), own.end_id());

  const Json conversation = {{"messages",
                              {{{"role", "system"}, {"content", "be brief"}},
                               {{"role", "user"}, {"content", "one <|im_end|>"}},
                               {{"role", "assistant"}, {"content", "first"}},
                               {{"role", "user"}, {"content", "two"}},
                               {{"role", "assistant"}, {"content", "second"}}}}};
  const ChatExample trained = own.example(conversation);
  EXPECT_EQ(exported.example(conversation).ids, trained.ids);
  Conversation chat(exported, "be brief", 4096);
  std::vector<int32_t> ids = chat.ask("one <|im_end|>", 10);
  chat.answer(tokenizer().encode("first"));
  ids = chat.ask("two", 10);
  for (const int32_t id : tokenizer().encode("second"))
    ids.push_back(id);
  ids.push_back(exported.end_id());
  ASSERT_LE(ids.size(), trained.ids.size());
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), trained.ids.begin()));
  EXPECT_EQ(tokenizer().decode(trained.ids).substr(tokenizer().decode(ids).size()), "\n");
}

// The template omits the reasoning of earlier messages, so the whole conversation is encoded again.
TEST(ChatTemplates, AConversationIsEncodedAnewWhereItsBeginningChanges) {
  const char* jinja =
      R"({% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' and not
loop.last %}{{ m.content.split('|')[-1] }}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{% if
add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
  const ChatTemplate chat({.name = "own", .jinja = jinja}, tokenizer());
  Conversation c(chat, "", 4096);
  c.ask("one", 10);
  c.answer(tokenizer().encode("thought|said"));
  EXPECT_EQ(tokenizer().decode(c.ask("two", 10)),
            "<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\nsaid<|im_end|>\n<|im_start|>user\ntwo<|"
            "im_end|>\n"
            "<|im_start|>assistant\n");
}

}  // namespace
}  // namespace gpt

// Tests request fields that define the format of the response.

#include "serve/openai/answer_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

using Ordered = nlohmann::ordered_json;
using grammar::GrammarSource;

Ordered tools() {
  return Ordered::parse(R"([
      {"type":"function","function":{"name":"add","parameters":
          {"type":"object","properties":{"x":{"$ref":"#/$defs/n"},"$ref":{"const":{"$ref":"#"}}},
           "required":["x"],"$defs":{"n":{"enum":[1,2]}}}}},
      {"type":"function","function":{"name":"stop"}}])");
}

bool fits(const AnswerGrammar& grammar, const std::string& text) {
  return compile(grammar.source)->matches(text);
}

TEST(AnswerGrammar, CallsOfToolsHaveTheFormOfTheTemplate) {
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 2}}\n</tool_call>";
  const AnswerGrammar one = tool_call_grammar(tools(), ToolFormat::hermes, false);
  EXPECT_TRUE(fits(one, call));
  EXPECT_FALSE(fits(one, call + "\n" + call));
  EXPECT_FALSE(fits(one, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 3}}\n</tool_call>"));
  EXPECT_FALSE(fits(one, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_TRUE(fits(one, "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"any\": [1]}}\n</tool_call>"));
  EXPECT_TRUE(fits(tool_call_grammar(tools(), ToolFormat::hermes, true), call + "\n" + call));
  const Ordered big = parse_json_document(
      R"([{"type":"function","function":{"name":"f","parameters":{"properties":{"id":{"const":12345678901234567890123}}}}}])",
      "tools");
  EXPECT_TRUE(fits(tool_call_grammar(big, ToolFormat::llama3, false),
                   R"({"name":"f","parameters":{"id":12345678901234567890123}})"));
  const AnswerGrammar llama = tool_call_grammar(tools(), ToolFormat::llama3, true);
  EXPECT_TRUE(fits(llama, R"({"name": "add", "parameters": {"x": 1, "$ref": {"$ref":"#"}}})"));
  EXPECT_FALSE(fits(llama, R"({"name": "add", "parameters": {}})"));
}

TEST(AnswerGrammar, AnAnswerMayFitAnotherGrammarInstead) {
  using Kind = GrammarSource::Kind;
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 2}}\n</tool_call>";
  const GrammarSource calls = tool_call_grammar(tools(), ToolFormat::hermes, true).source;
  const struct {
    GrammarSource source;
    std::string text;
  } cases[] = {{{Kind::json_schema, R"({"enum":["a"]})"}, "\"a\""},
               {{Kind::json_object}, "{\"b\": 1}"},
               {{Kind::regex, "[0-9]+"}, "12"},
               {{Kind::gbnf, "root ::= answer\nanswer ::= \"yes\""}, "yes"}};
  for (auto c : cases) {
    c.source.others = {calls};
    const grammar::GrammarPtr grammar = compile(c.source);
    EXPECT_TRUE(grammar->matches(c.text) && grammar->matches(call) && grammar->matches(call + "\n" + call));
    EXPECT_FALSE(grammar->begins(c.text + call) || grammar->begins(call + c.text) || grammar->matches(""));
    GrammarSource same = c.source;
    EXPECT_EQ(same, c.source);
    same.others.clear();
    EXPECT_NE(same, c.source);
  }
}

TEST(AnswerGrammar, ItsFieldsExcludeEachOther) {
  const auto read = [](const std::string& body) {
    const nlohmann::json parsed = parse_body(body);
    return read_answer_grammar(Fields(parsed), body);
  };
  EXPECT_FALSE(read(R"({"response_format":{"type":"text"},"grammar":null})"));
  EXPECT_EQ(read(R"({"response_format":{"type":"text"},"guided_regex":"a"})")->field, "guided_regex");
  // The keys of a schema keep their order.
  const auto schema = read(R"({"json_schema":{"properties":{"z":{},"a":{}}}})");
  EXPECT_EQ(schema->source.text, R"({"properties":{"z":{},"a":{}}})");
  const std::string big = R"({"enum":[12345678901234567890123,18446744073709551615,1e+22]})";
  EXPECT_EQ(read(R"({"json_schema":)" + big + "}")->source.text, big);
  EXPECT_THROW(read(R"({"json_schema":{},"grammar":"root ::= \"a\""})"), ApiError);
  EXPECT_THROW(read(R"({"structured_outputs":{"json":{},"regex":"a"}})"), ApiError);
  EXPECT_THROW(read(R"({"structured_outputs":{}})"), ApiError);
  EXPECT_THROW(read(R"({"response_format":{}})"), ApiError);
}

}  // namespace
}  // namespace gpt::serve

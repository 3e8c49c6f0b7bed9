#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "grammar/grammar.h"

// Compares grammars with the results of Python programs for the same texts (scripts/golden/make_grammar.py).
namespace gpt::grammar {
namespace {

using Json = nlohmann::json;

void each_row(const std::string& name, const std::function<void(const Json& row)>& f) {
  std::ifstream file(GPT_SOURCE_DIR "/tests/data/grammar/" + name);
  int rows = 0;
  for (std::string line; std::getline(file, line); ++rows)
    f(Json::parse(line));
  EXPECT_GT(rows, 0) << name;
}

void expect_texts(const Grammar& grammar, const Json& texts, bool fit, bool quoted, const std::string& what) {
  for (const Json& text : texts)
    EXPECT_EQ(grammar.matches(quoted ? text.dump() : text.get<std::string>()), fit) << what << ": " << text;
}

TEST(PythonResults, NumberRanges) {
  each_row("ranges.jsonl", [](const Json& row) {
    const std::string schema = row["schema"];
    const GrammarPtr grammar = compile_json_schema_text(schema);
    expect_texts(*grammar, row["fit"], true, false, schema);
    expect_texts(*grammar, row["others"], false, false, schema);
  });
}

// Numbers may be written like in Python, for a number schema, for a constant, and for a range that only
// contains this number.
TEST(PythonResults, Numbers) {
  const GrammarPtr integers = compile_json_schema_text(R"({"type":"integer"})");
  const GrammarPtr numbers = compile_json_schema_text(R"({"type":"number"})");
  each_row("numbers.jsonl", [&](const Json& row) {
    const std::string text = row["text"], python = row["python"];
    const bool integer = python.find_first_of(".e") == std::string::npos;
    EXPECT_EQ(integers->matches(python), integer) << python;
    EXPECT_EQ(numbers->matches(python), !python.ends_with("e+308")) << python;
    const GrammarPtr constant = compile_json_schema_text(fmt::format(R"({{"const":{}}})", text));
    EXPECT_TRUE(constant->matches(python)) << text;
    EXPECT_EQ(constant->matches(text), text == python) << text;
    if (!integer || python.size() > 40 || python == "0") return;
    const GrammarPtr range =
        compile_json_schema_text(fmt::format(R"({{"type":"integer","minimum":{0},"maximum":{0}}})", text));
    EXPECT_TRUE(range->matches(python)) << text;
  });
}

TEST(PythonResults, RegularExpressions) {
  int compared = 0;
  each_row("regex.jsonl", [&](const Json& row) {
    const std::string pattern = row["pattern"];
    const std::string schema = Json{{"type", "string"}, {"pattern", pattern}}.dump();
    GrammarPtr whole, part;
    try {
      whole = compile_regex(pattern);
      part = compile_json_schema_text(schema);
    } catch (const Error&) {  // refused: readings differ or there is none
      return;
    }
    ASSERT_TRUE(row.contains("texts")) << pattern;
    ++compared;
    for (size_t i = 0; i < row["texts"].size(); ++i) {
      const std::string text = row["texts"][i];
      EXPECT_EQ(whole->matches(text), row["whole"].get<std::string>()[i] == '1') << pattern << " on " << text;
      EXPECT_EQ(part->matches(Json(text).dump()), row["part"].get<std::string>()[i] == '1')
          << pattern << " in " << text;
    }
  });
  EXPECT_GT(compared, 250);
}

// A pattern with a length limit must accept the same texts of two to five characters as the pattern without
// the limit.
TEST(PythonResults, RegularExpressionsWithLengths) {
  each_row("regex.jsonl", [&](const Json& row) {
    if (!row.contains("texts")) return;
    const Json schema = {{"type", "string"}, {"pattern", row["pattern"]}, {"minLength", 2}, {"maxLength", 5}};
    GrammarPtr grammar;
    try {
      grammar = compile_json_schema_text(schema.dump());
    } catch (const Error&) {  // refused, or all texts are longer
      return;
    }
    for (size_t i = 0; i < row["texts"].size(); ++i) {
      const std::string text = row["texts"][i];
      const auto length = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
      const bool fits = row["part"].get<std::string>()[i] == '1' && length >= 2 && length <= 5;
      EXPECT_EQ(grammar->matches(Json(text).dump()), fits) << row["pattern"] << " in " << text;
    }
  });
}

TEST(PythonResults, AValueOfAPydanticModelFitsItsSchema) {
  each_row("pydantic.jsonl", [](const Json& row) {
    const GrammarPtr grammar = compile_json_schema_text(row["schema"].get<std::string>());
    EXPECT_TRUE(grammar->matches(row["value"].get<std::string>())) << row["value"];
  });
}

TEST(PythonResults, Formats) {
  each_row("formats.jsonl", [](const Json& row) {
    const std::string name = row["format"];
    const auto schema = [&](const std::string& more) {
      return compile_json_schema_text(fmt::format(R"({{"type":"string","format":"{}"{}}})", name, more));
    };
    const GrammarPtr grammar = schema("");
    expect_texts(*grammar, row["valid"], true, true, name);
    expect_texts(*grammar, row["invalid"], false, true, name);
    const GrammarPtr short_ones = schema(R"(,"maxLength":40)");
    for (const Json& text : row["valid"]) {
      const auto& bytes = text.get_ref<const std::string&>();
      const auto length =
          std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_EQ(short_ones->matches(text.dump()), length <= 40) << name << ": " << text;
    }
  });
}

}  // namespace
}  // namespace gpt::grammar

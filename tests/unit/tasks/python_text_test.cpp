// Compares text processing with Python, PyYAML and `datasets`. Expected values are from
// scripts/golden/make_python_text.py.

#include <gtest/gtest.h>

#include <cmath>

#include "base/json_text.h"
#include "support/names.h"
#include "tasks/documents.h"
#include "tasks/python_regex.h"
#include "tasks/yaml.h"
#include "text/jinja/datetime.h"
#include "text/jinja/jinja.h"
#include "text/letter_case.h"
#include "unit/tasks/task_fixture.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;

ordered_json rows_of(const std::string& name) {
  return ordered_json::parse(read_file(std::string(GPT_SOURCE_DIR) + "/tests/data/python/" + name));
}

TEST(Yaml, ReadsScalarsAsPyYaml) {
  int refused = 0, compared = 0;
  for (const ordered_json& row : rows_of("yaml.json")) {
    const auto text = row[0].get<std::string>();
    SCOPED_TRACE(text);
    ordered_json value;
    try {
      value = parse_yaml(text, "t");
    } catch (const Error&) {
      refused += row[1].is_null() ? 0 : 1;
      continue;
    }
    ++compared;
    if (!row[1].is_null()) {
      EXPECT_EQ(value.dump(), row[1].dump());
    }
  }
  EXPECT_LE(refused, 12);  // tags in lists, where yaml-cpp reads too much
  EXPECT_GE(compared, 380);
}

TEST(Yaml, KeepsEveryLineEnd) {
  const auto text = [](const std::string& yaml) { return parse_yaml(yaml, "t").at("a").get<std::string>(); };
  EXPECT_EQ(text("a: \"\n\n\n  \""), "\n\n");
  EXPECT_EQ(text("a: 'a\n\n\n  '"), "a\n\n");
  EXPECT_EQ(text("a: >+\n  x\n\n\n"), "x\n\n\n");
  EXPECT_EQ(text("a: |2-\n    x\n   y\n"), "  x\n y");
  EXPECT_EQ(text("a: b\n\n  c\n"), "b\nc");
  EXPECT_EQ(text("a: \"\\N\\_\\L\\P\\e\\x41\\u00e9\\U0001F600\\/\""),
            "\u0085\u00a0\u2028\u2029\x1b"
            "A\u00e9\U0001F600/");
}

TEST(Yaml, ResolvesPlainScalarsAsYaml11) {
  const ordered_json value = parse_yaml(
      "[1:30, -1:30:05, 1:30.5, 0b101, -0x1F, 08, 1_0, _1, 1., 1.5e+3, 1.5e3, -.5, .inf, 2024-01-02, !!float "
      "1, "
      "!!str 1]",
      "t");
  EXPECT_EQ(value.dump(),
            R"([90,-5405,90.5,5,-31,"08",10,"_1",1.0,1500.0,"1.5e3","-.5",null,"2024-01-02",1.0,"1"])");
  for (const char* text : {"a: 9223372036854775808", "a: 2024-01-02 03:04:05", "a: =", "a: <<", "a: \u2028",
                           "a: \x01", "a: !!int x"})
    EXPECT_THROW(parse_yaml(text, "t"), Error) << text;
}

TEST(Yaml, MergesInTheOrderOfPyYaml) {
  const ordered_json value =
      parse_yaml("m: &m {a: 1, b: 2}\nn: &n {b: 3, c: 4}\nr: {c: 5, <<: [*n, *m], '<<': 6}\n", "t");
  EXPECT_EQ(value["r"].dump(), R"({"b":3,"c":5,"a":1,"<<":6})");
}

TEST(PythonRegex, FindsWhatPythonFinds) {
  int refused = 0, compared = 0;
  for (const ordered_json& row : rows_of("regex.json")) {
    const auto pattern = row[0].get<std::string>();
    SCOPED_TRACE(pattern);
    if (row[2].is_null()) {
      EXPECT_THROW(PythonRegex{pattern}, Error);
      continue;
    }
    try {
      const PythonRegex regex(pattern);
      for (size_t i = 0; i < row[1].size(); ++i) {
        const auto text = row[1][i].get<std::string>();
        EXPECT_EQ(ordered_json(regex.find_all(text)), row[2][i][0]) << text;
        EXPECT_EQ(regex.remove_from(text), row[2][i][1].get<std::string>()) << text;
      }
      ++compared;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_LE(refused, compared / 10);
  EXPECT_GE(compared, 700);
}

TEST(PythonRegex, BoundsMemoryAndSteps) {
  const auto refused = [](const std::string& pattern, const std::string& text) {
    const PythonRegex regex(pattern);
    EXPECT_THROW(regex.find_all(text), Error) << pattern;
    EXPECT_THROW(regex.remove_from(text), Error) << pattern;
  };
  std::string groups;
  for (int i = 0; i < 600; ++i)
    groups += "()";
  refused("(?:" + groups + "a)*[bc]", std::string(20000, 'a'));
  refused("(a*)*b", std::string(20000, 'a'));
  refused("(a|aa)+$", std::string(20000, 'a') + "b");
  EXPECT_EQ(PythonRegex("a").find_all(std::string(200000, 'a')).size(), 200000u);
  EXPECT_EQ(PythonRegex("(?=a)a*a").find_all("b a").size(), 1u);  // PCRE2's optimizations find none
}

TEST(LetterCase, IsThatOfPython) {
  const JinjaTemplate title("{{ x|title }}");
  for (const ordered_json& row : rows_of("case.json")) {
    const auto text = row[0].get<std::string>();
    SCOPED_TRACE(text);
    EXPECT_EQ(in_case(text, LetterCase::lower), row[1].get<std::string>());
    EXPECT_EQ(in_case(text, LetterCase::upper), row[2].get<std::string>());
    EXPECT_EQ(in_case(text, LetterCase::title), row[3].get<std::string>());
    EXPECT_EQ(in_case(text, LetterCase::capitalize), row[4].get<std::string>());
    EXPECT_EQ(in_case(text, LetterCase::swap), row[5].get<std::string>());
    EXPECT_EQ(title.render(ordered_json{{"x", text}}), row[6].get<std::string>());
  }
}

// Converts a value to the format of the generator script, which writes a datetime as its str and repr.
ordered_json written(const ordered_json& value) {
  if (value.is_binary()) {
    const auto datetime = PythonDatetime::from_json(value);
    return {{"datetime", {datetime.str(), datetime.repr()}}};
  }
  ordered_json out = value;
  if (value.is_structured()) {
    for (ordered_json& member : out)
      member = written(member);
  }
  return out;
}

TEST(Documents, HaveTheTypesOfDatasets) {
  for (const ordered_json& row : rows_of("documents.json")) {
    SCOPED_TRACE(row[0].dump());
    const TaskFolder folder;
    std::string lines;
    for (const ordered_json& line : row[0])
      lines += line.get<std::string>() + "\n";
    const Documents docs = read_documents({folder.write("d.jsonl", lines)}, TextTypes::datetimes);
    ASSERT_EQ(docs.size(), row[1].size());
    for (size_t i = 0; i < docs.size(); ++i)
      EXPECT_EQ(written((*docs.docs)[i]).dump(), row[1][i].dump());
  }
}

// Expected values are those of datasets 5.2 with pandas' ujson.
TEST(Documents, MixedColumnsAreThoseOfUjson) {
  struct Row {
    const char *value, *expected;  // in a column that also contains text
  };
  const Row rows[] = {
      {R"("007")", "7"},
      {R"("-")", "0"},
      {R"("NaN")", "null"},
      {R"("5.")", "5.0"},
      {R"("1e")", "1.0"},
      {R"(" 5 ")", "5"},
      {R"("-0")", "0"},
      {R"("-.5")", "-0.5"},
      {R"("12e-3")", "0.012"},
      {R"("0.999999999999999")", "0.9999999999999991"},
      {R"("123456789012345678901234567890")", R"("123456789012345678901234567890")"},
      {R"("12345678901234567890")", "12345678901234567890"},
      {R"("-9223372036854775809")", R"("-9223372036854775809")"},
      {R"("1 2")", R"("1 2")"},
      {R"("tru")", R"("tru")"},
      {R"("--1")", R"("--1")"},
      {R"("+5")", R"("+5")"},
      {R"("")", R"("")"},
      {R"("[1, 2]")", "[1,2]"},
      {"0.1234567890123", "0.12345678900000001"},
      {"1e-12", "0.0"},
      {"-0.0", "0.0"},
      {"123456789.123456789", "123456789.12345679"},
      {"[1e22, {\"k\": 0.30000000000000004}]", "[1e+22,{\"k\":0.30000000000000004}]"},
  };
  for (const Row& row : rows) {
    const TaskFolder folder;
    const std::string lines = std::string(R"({"a": )") + row.value + "}\n{\"a\": \"x\"}\n{\"a\": 1}\n";
    const Documents docs = read_documents({folder.write("d.jsonl", lines)}, TextTypes::datetimes);
    EXPECT_EQ(json_text((*docs.docs)[0]["a"]), row.expected) << row.value;
  }
  const TaskFolder folder;
  const std::string path = folder.write("d.jsonl", R"({"a": "Infinity", "b": 0.12345678901}
{"a": 1, "b": -0})");
  const Documents docs = read_documents({path}, TextTypes::datetimes);
  EXPECT_TRUE(std::isinf((*docs.docs)[0]["a"].get<double>()));
  EXPECT_EQ(json_text((*docs.docs)[0]["b"]), "0.123456789");  // other columns are rewritten, too
  EXPECT_EQ(json_text((*docs.docs)[1]["b"]), "0.0");
}

TEST(Documents, BlankLinesAndSeveralFilesAreReadAsDatasetsDoes) {
  const TaskFolder folder;
  const auto read = [&](const std::string& one, const std::string& two = "") {
    std::vector<std::string> paths = {folder.write("1.jsonl", one)};
    if (!two.empty()) paths.push_back(folder.write("2.jsonl", two));
    return json_text(ordered_json(*read_documents(paths, TextTypes::datetimes).docs));
  };
  EXPECT_EQ(read("{\"a\": -0}\n{\"a\": 0.5}"), R"([{"a":-0.0},{"a":0.5}])");
  const std::string q = R"({"a": {"q": 1}})", j = R"({"a": {"j": 2}})";
  EXPECT_EQ(read(q + "\n" + j), R"([{"a":{"q":1}},{"a":{"j":2}}])");
  for (const std::string& lines : {q + "\n\n" + j, q + "\n" + j + "\n\n", q + "\n" + j + "\n  \n"})
    EXPECT_EQ(read(lines), R"([{"a":{"q":1,"j":null}},{"a":{"q":null,"j":2}}])") << lines;
  const std::string path = folder.path() + "/1.jsonl";
  EXPECT_TRUE(test::names(error_of([&] { read("{\"a\": 1}\n\n{\"a\": \"x\"}"); }), {path, "\"a\""}));
  EXPECT_EQ(read(R"({"a": 1.5, "b": 1})", R"({"a": 2})"), R"([{"a":1.5,"b":1},{"a":2.0,"b":null}])");
  EXPECT_EQ(read("{\"a\": 1}\n{\"a\": \"x\"}", R"({"a": "5"})"), R"([{"a":1},{"a":"x"},{"a":5}])");
  for (const std::pair<const char*, const char*>& files : {std::pair(R"({"a": 1})", R"({"a": 2.5})"),
                                                           {R"({"a": "x"})", R"({"a": "2020-01-01"})"},
                                                           {R"({"a": true})", R"({"a": 1})"},
                                                           {R"({"a": {"q": 1}})", R"({"a": {"j": 1}})"},
                                                           {R"({"b": 1})", R"({"b": 1, "a": 1})"}})
    EXPECT_TRUE(test::names(error_of([&] { read(files.first, files.second); }), {"\"a\""})) << files.second;
}

TEST(Documents, DatetimesAreWrittenAsPythonWritesThem) {
  const TaskFolder folder;
  const std::string path = folder.write("d.jsonl", R"({"day":"2024-01-02","all":["2024-01-02T03:04:05"]})");
  const Documents docs = read_documents({path}, TextTypes::datetimes);
  const JinjaTemplate prompt(
      "{{day}} {{all}} {{day == all[0]}} {{day < all[0]}} {{day is string}} {{day|upper}}");
  EXPECT_EQ(
      prompt.render(docs.docs->front()),
      "2024-01-02 00:00:00 [datetime.datetime(2024, 1, 2, 3, 4, 5)] False True False 2024-01-02 00:00:00");
  EXPECT_EQ(plain_document(docs.docs->front()).dump(),
            R"({"day":"2024-01-02 00:00:00","all":["2024-01-02 03:04:05"]})");
  EXPECT_EQ(read_documents({path}, TextTypes::text).docs->front()["day"], "2024-01-02");
}

}  // namespace
}  // namespace gpt

// Tests aggregations and statistical tests between models with published values, and text functions for
// responses.

#include "tasks/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/ranges.h"
#include "tasks/answers.h"
#include "tasks/prefix_tree.h"
#include "tasks/python_text.h"
#include "text/letter_case.h"
#include "unit/tasks/task_fixture.h"

namespace gpt {
namespace {

using nlohmann::json;

std::vector<MetricItem> items(std::initializer_list<double> values) {
  return transformed(values, [](double v) { return MetricItem{v}; });
}

TEST(Statistics, Aggregations) {
  EXPECT_EQ(aggregate("mean", items({1, 0, 0, 1})), 0.5);
  EXPECT_EQ(aggregate("median", items({5, 1, 9, 2})), 5);  // the upper one, as in the harness
  EXPECT_DOUBLE_EQ(aggregate("perplexity", items({-1, -3})), std::exp(2.0));
  const std::vector<MetricItem> weighted = {{-2, 4}, {-6, 4}};
  EXPECT_DOUBLE_EQ(aggregate("weighted_perplexity", weighted), std::exp(1.0));
  EXPECT_DOUBLE_EQ(aggregate("bits_per_byte", weighted), 1 / std::log(2.0));
  // sklearn: f1_score([1,1,0,0,1], [1,0,0,1,1]) = 2/3, matthews_corrcoef = 1/6.
  const std::vector<MetricItem> answers = {{1, 1}, {1, 0}, {0, 0}, {0, 1}, {1, 1}};
  EXPECT_DOUBLE_EQ(aggregate("f1", answers), 2.0 / 3);
  EXPECT_DOUBLE_EQ(aggregate("matthews_corrcoef", answers), 1.0 / 6);
}

TEST(Statistics, McNemar) {
  // The expected values are binomial tails: 2 * sum of C(n,k) / 2^n for k up to the smaller count.
  EXPECT_NEAR(mcnemar(0, 5), 2.0 / 32, 1e-12);
  EXPECT_NEAR(mcnemar(2, 8), 2 * (1 + 10 + 45) / 1024.0, 1e-12);
  EXPECT_EQ(mcnemar(3, 3), 1);
  EXPECT_EQ(mcnemar(0, 0), 1);
}

TEST(Statistics, BootstrapKnowsThreadsNot) {
  ThreadPool one(1), three(3);
  const auto xs = items({1, 0, 0, 1, 1, 0, 1, 1});
  const auto mean = [&](std::span<const uint32_t> chosen) { return aggregate("mean", xs, chosen); };
  EXPECT_EQ(bootstrap(mean, xs.size(), 5, one), bootstrap(mean, xs.size(), 5, three));
  const Estimate e = estimate("mean", xs, three);
  // For eight coins with five heads, these are the 2.5 % and 97.5 % quantiles of the binomial distribution.
  EXPECT_EQ(e.interval.low, 0.25);
  EXPECT_EQ(e.interval.high, 1.0 - 0.125);
  EXPECT_NEAR(*e.standard_error, std::sqrt(0.625 * 0.375 * 8 / 7 / 8), 1e-12);
  EXPECT_FALSE(estimate("mean", items({1}), one).standard_error.has_value());
}

TEST(Statistics, PairsOfModels) {
  ThreadPool pool(2);
  const auto a = items({1, 1, 1, 1, 1, 1, 1, 0, 1, 1}), b = items({0, 0, 1, 0, 1, 0, 0, 0, 0, 0});
  const PairedTest test = compare_paired("mean", a, b, pool);
  EXPECT_NEAR(test.difference, 0.7, 1e-12);
  EXPECT_EQ(test.only_a, 7);
  EXPECT_EQ(test.only_b, 0);
  EXPECT_NEAR(*test.mcnemar_p, 2.0 / 128, 1e-12);
  EXPECT_LT(test.p, 0.01);
  EXPECT_GT(test.interval.low, 0.3);
  const PairedTest same = compare_paired("mean", a, a, pool);
  EXPECT_EQ(same.p, 1);
  EXPECT_EQ(same.difference, 0);
}

TEST(Filters, LeaveOneAnswer) {
  Patterns patterns;
  const auto apply = [&](FilterStep step, std::vector<std::string> texts) {
    return filtered_answer({"f", {std::move(step), {.function = "take_first"}}}, std::move(texts), patterns);
  };
  FilterStep number{.function = "regex", .regex_pattern = "(-?[$0-9.,]{2,})|(-?[0-9]+)", .group_select = -1};
  EXPECT_EQ(apply(number, {"from 7 to 12, so 5"}), "5");
  EXPECT_EQ(apply(number, {"none"}), "[invalid]");
  EXPECT_EQ(apply({.function = "majority_vote"}, {"b", "a", "a", "b", "c"}), "b");
  EXPECT_EQ(apply({.function = "remove_whitespace"}, {" \u00a0x\n"}), "x");
  EXPECT_EQ(apply({.function = "lowercase"}, {"ÄB"}), "äb");
  EXPECT_EQ(apply({.function = "map", .mapping = {{"A", "1"}}, .default_value = "0"}, {"A"}), "1");
  EXPECT_EQ(apply({.function = "take_first_k", .k = 2}, {"x", "y", "z"}), "x");
  EXPECT_NE(error_of([&] { apply({.function = "take_first_k", .k = 4}, {"x"}); }), "no error");
  EXPECT_NE(error_of([&] {
              filtered_answer({"f", {{.function = "lowercase"}}}, {"x"}, patterns);
            }),
            "no error");
}

// A pattern with exponential matching time causes an error.
TEST(PythonRegex, MeansWhatPythonMeans) {
  EXPECT_EQ(PythonRegex("x*").remove_from("axxb"), "ab");
  EXPECT_EQ(PythonRegex("x*|b").remove_from("axxb"), "a");
  EXPECT_EQ(PythonRegex("(?s).*#### ").remove_from("a\nb #### 7"), "7");
  EXPECT_EQ(PythonRegex("\\.$").remove_from("end."), "end");
  EXPECT_EQ(PythonRegex("(a)|(b)").find_all("ab"),
            (std::vector<std::vector<std::string>>{{"a", ""}, {"", "b"}}));
  EXPECT_NE(error_of([] { PythonRegex("(a+)+$").find_all(std::string(60, 'a') + "b"); }), "no error");
  EXPECT_NE(error_of([] { PythonRegex("("); }), "no error");
  EXPECT_EQ(PythonRegex("a\\Z|b$").remove_from("ab\na\n"), "ab\na\n");
  EXPECT_EQ(PythonRegex("a\\Z|b$").remove_from("aab\n"), "aa\n");
}

TEST(PythonText, Literals) {
  EXPECT_EQ(python_literal(R"(['a', "it's", 'q"', 'n\n\x41\u00e9', 1, -2.5, True, None, ('x',), ('y')])"),
            nlohmann::ordered_json::parse(R"(["a","it's","q\"","n\nA\u00e9",1,-2.5,true,null,["x"],"y"])"));
  EXPECT_EQ(python_literal(R"({'a': [1], 'b': 'c' 'd'})"),
            nlohmann::ordered_json::parse(R"({"a":[1],"b":"cd"})"));
  EXPECT_EQ(python_str(*python_literal("-12345678901234567890123")), "-12345678901234567890123");
  EXPECT_EQ(python_str(*python_literal("1e22")), "1e+22");
  EXPECT_EQ(python_str(*python_literal("1e-07")), "1e-07");
  for (const char* text :
       {"", "[", "['a' 1]", "[1 2]", "a", "__import__('os')", "'a", "012", "{1: 2}", "1+1"})
    EXPECT_EQ(python_literal(text), std::nullopt) << text;
  EXPECT_EQ(python_literal(std::string(100000, '[')), std::nullopt);
  EXPECT_EQ(in_case("éLAN Vital", LetterCase::capitalize), "Élan vital");
  EXPECT_EQ(strip("\x1c a\u3000"), "a");
  EXPECT_EQ(count_words(" two  words "), 4);  // like re.split, counts the empty ends
}

TEST(PrefixTree, HasEachSequenceOnceAndWhereTheyPart) {
  const std::vector<std::vector<int32_t>> data = {{1, 2, 3}, {1, 2},    {1, 2, 4, 5},
                                                  {7},       {1, 2, 3}, {1, 2, 4, 6}};
  const PrefixTree tree(transformed(data, [](const auto& ids) { return std::span<const int32_t>(ids); }));
  std::vector<int> seen(data.size());
  std::vector<size_t> left = {PrefixTree::kRoot};
  while (!left.empty()) {
    const PrefixTree::Node& node = tree.node(left.back());
    left.pop_back();
    for (const size_t s : node.sequences) {
      ++seen[s];
      EXPECT_EQ(node.length, std::ssize(data[s]));
    }
    EXPECT_NE(node.children.empty(), node.sequences.empty());
    EXPECT_NE(node.children.size(), 1u);
    for (const size_t child : node.children) {
      EXPECT_GE(tree.node(child).length, node.length);
      const auto begin = data[tree.node(child).sequence].begin();
      EXPECT_TRUE(std::equal(begin, begin + node.length, data[node.sequence].begin()));
      left.push_back(child);
    }
  }
  EXPECT_EQ(seen, std::vector<int>(data.size(), 1));
}

}  // namespace
}  // namespace gpt

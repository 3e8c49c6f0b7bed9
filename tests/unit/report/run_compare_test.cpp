#include "report/run_compare.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using nlohmann::json;

class RunCompare : public testing::Test {
 protected:
  std::string add_run(const std::string& name, const std::string& metrics, const std::string& config) {
    std::filesystem::create_directories(dir_.file(name));
    test::write_plain_file(dir_.file(name) + "/metrics.jsonl", metrics);
    if (!config.empty()) test::write_plain_file(dir_.file(name) + "/config.json", config);
    return dir_.file(name);
  }
  test::TempDir dir_;
};

constexpr const char* kMetrics =
    "{\"step\":10,\"tokens\":100,\"loss\":3.0,\"tok_per_s\":50,\"seconds\":2}\n"
    "{\"step\":10,\"val_loss\":2.5}\n"
    "{\"step\":20,\"tokens\":200,\"loss\":2.0,\"tok_per_s\":70,\"seconds\":4}\n"
    "{\"step\":20,\"val_loss\":2.75}\n";

TEST_F(RunCompare, FiguresAndDifferences) {
  const std::string a = add_run("a", kMetrics, R"({"lr":0.1,"data":["tales"],"seed":1})");
  const std::string b =
      add_run("b", "{\"step\":5,\"loss\":\"NaN\"}\n", R"({"lr":0.2,"data":["tales"],"new":true})");
  const std::vector<FinishedRun> runs = read_runs({a + "/", b});
  EXPECT_EQ(runs[0].name, "a");
  const RunSummary s = summarize(runs[0]);
  EXPECT_EQ(s.steps, 20);
  EXPECT_EQ(s.loss, 2.0);
  EXPECT_EQ(s.val_loss, 2.75);
  EXPECT_EQ(s.best_val_loss, 2.5);
  EXPECT_EQ(s.best_step, 10);
  EXPECT_EQ(s.tokens_per_s, 70);
  const json out = json::parse(compare_json(runs));
  EXPECT_EQ(out.at("runs")[0].at("best_val_loss"), 2.5);
  EXPECT_TRUE(out.at("runs")[1].at("loss").is_null());
  EXPECT_TRUE(out.at("runs")[1].at("val_loss").is_null());
  EXPECT_EQ(out.at("differences").size(), 3u);
  EXPECT_EQ(out.at("differences").at("lr"), json({"0.1", "0.2"}));
  EXPECT_EQ(out.at("differences").at("new"), json({"", "true"}));
  EXPECT_EQ(summary_table(runs).rows.size(), 2u);
}

// A tenth of 3e-4 is printed as a short number.
TEST_F(RunCompare, SettingsAreShortNumbers) {
  const std::string a = add_run("a", kMetrics, R"({"min_lr":2.9999999999999997e-05,"eps":1e-08})");
  const std::string b = add_run("b", kMetrics, R"({"min_lr":0.00030000000000000003,"eps":1e-08})");
  const json out = json::parse(compare_json(read_runs({a, b})));
  EXPECT_EQ(out.at("differences"), json({{"min_lr", {"3e-05", "0.0003"}}}));
}

TEST_F(RunCompare, EqualNamesAreToldApart) {
  const std::string a = add_run("x/run", kMetrics, ""), b = add_run("y/run", kMetrics, "");
  const std::vector<FinishedRun> runs = read_runs({a, b});
  EXPECT_EQ(runs[0].name, a);
  EXPECT_EQ(runs[1].name, b);
  EXPECT_TRUE(difference_table(runs).rows.empty());
}

TEST_F(RunCompare, PageHasAllRunsAndNoMarkupFromThem) {
  const std::string a = add_run("a", kMetrics, R"({"tokenizer":"<img src=x>"})");
  const std::string b = add_run("<b>", kMetrics, R"({"tokenizer":"byte"})");
  const RunReport report = compare_report(read_runs({a, b}));
  EXPECT_TRUE(test::names(report.title, {2}));
  const std::string html = report_html(report);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html.find("&lt;img src=x&gt;"), std::string::npos);
}

TEST_F(RunCompare, DamagedFoldersAreRefused) {
  EXPECT_THROW(read_runs({dir_.file("none")}), Error);
  EXPECT_THROW(read_runs({add_run("list", kMetrics, "[1]")}), Error);
  EXPECT_THROW(read_runs({add_run("cut", kMetrics, "{\"lr\":")}), Error);
  EXPECT_THROW(read_runs({add_run("text", "not json\n", "")}), Error);
  EXPECT_NO_THROW(read_runs(
      {add_run("deep", kMetrics, "{\"lr\":" + std::string(100000, '[') + std::string(100000, ']') + "}")}));
}

TEST_F(RunCompare, OddNumbersDoNotStopIt) {
  const std::string path = add_run(
      "odd", "{\"step\":1e15,\"loss\":1,\"tok_per_s\":1e300}\n{\"step\":\"one\",\"val_loss\":1}\n{}\n", "");
  const std::vector<FinishedRun> runs = read_runs({path});
  EXPECT_EQ(summary_table(runs).rows[0][1], "?");
  EXPECT_NO_THROW(compare_json(runs));
  EXPECT_NO_THROW(report_html(compare_report(runs)));
  EXPECT_THROW(read_runs({add_run("beyond", "{\"step\":1e300,\"loss\":1}\n", "")}), Error);
}

}  // namespace
}  // namespace gpt

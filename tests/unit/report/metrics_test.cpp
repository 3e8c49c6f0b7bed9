#include "report/metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

MetricRecord step_record(int64_t step) {
  return {{"step", step}, {"loss", 1.0 / static_cast<double>(step + 1)}};
}

TEST(Metrics, LinesKeepTheOrderOfKeysAndAreValidJson) {
  EXPECT_EQ(format_metric_line({{"step", int64_t{7}}, {"loss", 2.5}, {"a", std::string("x\"y\n")}}),
            R"({"step":7,"loss":2.5,"a":"x\"y\n"})");
  EXPECT_EQ(format_metric_line({{"a", std::nan("")}, {"b", kInf}, {"c", -kInf}}),
            R"({"a":"NaN","b":"Infinity","c":"-Infinity"})");
  EXPECT_EQ(format_metric_line({{"t", std::string("\xff")}}), "{\"t\":\"\uFFFD\"}");
}

TEST(Metrics, ReadsBackWhatWasWritten) {
  test::TempDir folder;
  const double third = 1.0 / 3;
  {
    MetricsLog log(folder.path());
    log.append({{"step", int64_t{1}}, {"loss", third}, {"note", std::string("hi")}});
    log.append({{"step", int64_t{2}}, {"loss", std::nan("")}, {"norm", -kInf}});
    log.sync();
  }
  const auto records = read_metrics(folder.file("metrics.jsonl"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0][0].first, "step");
  EXPECT_EQ(std::get<std::string>(records[0][2].second), "hi");
  EXPECT_EQ(metric_number(records[0], "loss"), third);  // bit-identical
  EXPECT_EQ(metric_number(records[0], "note"), std::nullopt);
  EXPECT_EQ(metric_number(records[0], "absent"), std::nullopt);
  EXPECT_TRUE(std::isnan(metric_number(records[1], "loss").value()));
  EXPECT_EQ(metric_number(records[1], "norm"), -kInf);
}

TEST(Metrics, EachLineIsOnDiskAtOnce) {
  test::TempDir folder;
  MetricsLog log(folder.path());
  log.append(step_record(1));
  EXPECT_EQ(read_metrics(folder.file("metrics.jsonl")).size(), 1u);
}

TEST(Metrics, ANewRunStartsAnEmptyFile) {
  test::TempDir folder;
  { MetricsLog(folder.path()).append(step_record(1)); }
  { MetricsLog log(folder.path()); }
  EXPECT_EQ(read_file(folder.file("metrics.jsonl")), "");
}

TEST(Metrics, ResumedFileEqualsTheUninterruptedOne) {
  test::TempDir whole, interrupted;
  {
    MetricsLog log(whole.path());
    for (int64_t s = 1; s <= 10; ++s)
      log.append(step_record(s));
  }
  {
    MetricsLog log(interrupted.path());
    for (int64_t s = 1; s <= 7; ++s)
      log.append(step_record(s));
  }
  const std::string path = interrupted.file("metrics.jsonl");
  write_file_atomic(path, read_file(path) + R"({"step":8,"lo)");  // killed while writing
  {
    MetricsLog log(interrupted.path(), 4);
    for (int64_t s = 5; s <= 10; ++s)
      log.append(step_record(s));
  }
  EXPECT_EQ(read_file(path), read_file(whole.file("metrics.jsonl")));
}

TEST(Metrics, ResumeKeepsEarlyLinesByteForByteAndDropsDamage) {
  test::TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  write_file_atomic(path,
                    "{ \"step\": 1,  \"x\": 1e0 }\n{\"note\":\"of step 1\"}\nnot json\n[1]\n{\"step\":9}\n"
                    "{\"note\":\"of step 9\"}\n{\"step\":2}");
  { MetricsLog log(folder.path(), 2); }
  EXPECT_EQ(read_file(path), "{ \"step\": 1,  \"x\": 1e0 }\n{\"note\":\"of step 1\"}\n{\"step\":2}\n");
}

TEST(Metrics, ResumeAtZeroKeepsTheEvaluationBeforeTheFirstStep) {
  test::TempDir folder;
  {
    MetricsLog log(folder.path());
    log.append(step_record(0));
    log.append(step_record(1));
  }
  { MetricsLog log(folder.path(), 0); }
  EXPECT_EQ(read_metrics(folder.file("metrics.jsonl")).size(), 1u);
}

TEST(Metrics, ResumeWithoutAFileStartsOne) {
  test::TempDir folder;
  MetricsLog(folder.path(), 5).append(step_record(6));
  EXPECT_EQ(read_metrics(folder.file("metrics.jsonl")).size(), 1u);
}

TEST(Metrics, TornLastLineIsIgnoredOtherDamageIsNamed) {
  test::TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  write_file_atomic(path, "{\"step\":1}\n{\"ste");
  EXPECT_EQ(read_metrics(path).size(), 1u);
  write_file_atomic(path, "{\"step\":1}\n{\"ste\n{\"step\":3}\n");
  EXPECT_TRUE(test::names(test::error_of([&] { read_metrics(path); }), {path, 2}));
}

TEST(Metrics, ForeignValuesAreRead) {
  test::TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  write_file_atomic(path, R"({"a":null,"b":true,"c":18446744073709551615,"d":[1],"e":{"f":1},"g":-3})");
  const auto records = read_metrics(path);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_TRUE(std::isnan(metric_number(records[0], "a").value()));
  EXPECT_EQ(metric_number(records[0], "b"), 1.0);
  EXPECT_EQ(metric_number(records[0], "c"), 18446744073709551615.0);
  EXPECT_EQ(metric_number(records[0], "d"), std::nullopt);
  EXPECT_EQ(metric_number(records[0], "g"), -3.0);
}

// Steps are converted to integer counts. An invalid step is reported with its line number.
TEST(Metrics, AbsurdStepsAreRefused) {
  test::TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  for (const char* step : {"-1", "0.5", "1e300", "18446744073709551615", "\"Infinity\"", "null"}) {
    write_file_atomic(path, fmt::format("{{\"step\":1}}\n{{\"step\":{}}}\n", step));
    EXPECT_TRUE(test::names(test::error_of([&] { read_metrics(path); }), {path, 2})) << step;
  }
  write_file_atomic(path, "{\"step\":null}\n");
  EXPECT_TRUE(test::names(test::error_of([&] { read_metrics(path); }), {path, "null"}));
  write_file_atomic(path, "{\"step\":1e400}\n");
  EXPECT_TRUE(test::names(test::error_of([&] { read_metrics(path); }), {path, 1, "1.8e308"}));
  write_file_atomic(path, R"({"step":1e3,"loss":1e308,"tokens":1e300})");
  EXPECT_EQ(metric_number(read_metrics(path).at(0), "step"), 1000.0);
}

TEST(Metrics, DeepNestingIsNoDanger) {
  test::TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  write_file_atomic(path, "{\"a\":" + std::string(200000, '[') + std::string(200000, ']') + ",\"step\":1}\n");
  EXPECT_EQ(metric_number(read_metrics(path).at(0), "step"), 1.0);
}

TEST(Metrics, UnwritableFolderIsAnError) {
  EXPECT_THROW(MetricsLog("/nonexistent-folder/x"), Error);
  EXPECT_THROW(read_metrics("/nonexistent-folder/x"), Error);
}

TEST(AppendFile, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  AppendFile file("/dev/full", AppendFile::Mode::keep);
  EXPECT_THROW(file.append("x"), Error);
}

}  // namespace
}  // namespace gpt

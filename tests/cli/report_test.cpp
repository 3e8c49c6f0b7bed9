// Tests the command line of gpt report.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;

std::string small_run(const gpt::test::TempDir& dir, const std::string& name, const std::string& lr) {
  const GptRun run = run_gpt({"train", "--data",      "tales:20000", "--n-layer",    "2",  "--n-head",
                              "2",     "--n-embd",    "16",          "--n-ctx",      "16", "--batch-size",
                              "2",     "--steps",     "6",           "--eval-every", "3",  "--eval-batches",
                              "1",     "--log-every", "1",           "--threads",    "1",  "--lr",
                              lr,      "--out",       dir.file(name)});
  EXPECT_EQ(run.status, 0) << run.err;
  return dir.file(name);
}

TEST(Report, ComparesRuns) {
  const gpt::test::TempDir dir;
  const std::string a = small_run(dir, "a", "0.001"), b = small_run(dir, "b", "0.002");
  const GptRun text = run_gpt({"report", a, b});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(names(text.out, {"lr", "0.001", "0.002"})) << "the setting that differs";
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
  const std::string page = dir.file("page.html");
  const GptRun both = run_gpt({"report", a, b, "--json", "--out", page});
  EXPECT_EQ(both.status, 0) << both.err;
  const json out = json::parse(both.out);
  EXPECT_EQ(out.at("runs")[1].at("steps"), 6);
  EXPECT_EQ(out.at("differences").at("lr"), json({"0.001", "0.002"}));
  EXPECT_TRUE(gpt::read_file(page).starts_with("<!DOCTYPE html>"));
  const std::string picture = dir.file("loss.svg");
  EXPECT_EQ(run_gpt({"report", a, b, "--svg", picture}).status, 0);
  EXPECT_EQ(gpt::read_file(picture).find("validation"), std::string::npos) << "one curve for each run";
  EXPECT_EQ(run_gpt({"report", a, "--svg", picture}).status, 0);
  EXPECT_NE(gpt::read_file(picture).find("validation"), std::string::npos);
  // The report page of a run shows norms of each part of the model, and stops refreshing when the run has
  // ended.
  const std::string own = gpt::read_file(a + "/report.html");
  for (const char* part : {"\"grad_norm/block 1\"", "\"update_ratio/token embedding\"", "\"running\":false"})
    EXPECT_NE(own.find(part), std::string::npos) << part;
}

// --html and --out only replace pages of the same kind, and never the report page of a run or sweep.
TEST(Report, ReplacesOnlyPagesOfItsKind) {
  const gpt::test::TempDir dir;
  const std::string a = small_run(dir, "a", "0.001"), b = small_run(dir, "b", "0.002");
  const auto refused = [](const std::vector<std::string>& words) {
    const std::string flag = words[words.size() - 2], file = words.back(), before = gpt::read_file(file);
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 1) << run.out;
    EXPECT_TRUE(names(run.err, {flag, file}));
    EXPECT_EQ(gpt::read_file(file), before);
  };
  refused({"report", a, "--out", b + "/report.html"});
  refused({"report", a, "--svg", a + "/loss.svg"});
  refused({"trace", a, "--ids", "1,2", "--html", a + "/report.html"});
  refused({"trace", a, "--ids", "1,2", "--svg", a + "/loss.svg"});
  std::filesystem::create_directory(dir.file("sweep"));
  for (const char* file : {"sweep/sweep.json", "sweep/sweep.html"})
    std::filesystem::copy(a + "/report.html", dir.file(file));
  refused({"report", a, b, "--out", dir.file("sweep/sweep.html")});
  const std::string page = dir.file("page.html"), picture = dir.file("picture.svg");
  for (int n = 0; n < 2; ++n)
    EXPECT_EQ(run_gpt({"trace", a, "--ids", "1,2", "--html", page, "--svg", picture}).status, 0);
  refused({"report", a, b, "--out", page});
  refused({"report", a, b, "--svg", picture});
  for (int n = 0; n < 2; ++n)
    EXPECT_EQ(run_gpt({"report", a, b, "--out", dir.file("sweep/report.html")}).status, 0);
  refused({"trace", a, "--ids", "1,2", "--html", dir.file("sweep/report.html")});
}

TEST(Report, LeavesOutFoldersWithoutARun) {
  const gpt::test::TempDir dir;
  const std::string a = small_run(dir, "a", "0.001"), empty = dir.file("empty");
  std::filesystem::create_directories(empty);
  const GptRun run = run_gpt({"report", empty, a, "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out).at("runs").size(), 1u);
  EXPECT_TRUE(names(run.err, {empty}));
  const std::string stray = dir.file("notes.txt");
  gpt::test::write_plain_file(stray, "x");
  const GptRun beside = run_gpt({"report", stray, a, empty, "--json"});
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_EQ(json::parse(beside.out).at("runs").size(), 1u);
  EXPECT_TRUE(names(beside.err, {2, stray, empty}));
  std::vector<std::string> many = {"report", stray};
  many.resize(64 + 2, a);
  EXPECT_EQ(run_gpt(many).status, 0) << "what is no run does not count";
  many.push_back(a);
  const GptRun refused = run_gpt(many);
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(names(refused.err, {64, 65}));
  EXPECT_EQ(run_gpt({"report", dir.file("none"), a}).status, 1) << "probably a typing error";
}

TEST(Report, RefusesInOneLine) {
  const gpt::test::TempDir dir;
  for (const char* flag : {"--out", "--svg"}) {
    const std::string picture = dir.file("x.png");
    const GptRun run = run_gpt({"report", dir.path(), flag, picture});
    EXPECT_EQ(run.status, 2);
    EXPECT_TRUE(names(run.err, {flag, picture}));
  }
  EXPECT_EQ(run_gpt({"report"}).status, 2);
  EXPECT_EQ(run_gpt({"report", dir.path(), "--jsn"}).status, 2);
  const GptRun none = run_gpt({"report", dir.path()});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(names(none.err, {dir.path(), "metrics.jsonl"}));
  EXPECT_EQ(std::count(none.err.begin(), none.err.end(), '\n'), 1);
}

}  // namespace

// Tests the command line of gpt trace.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;

const std::string kModel = GPT_SOURCE_DIR "/tests/golden/data/llama";

GptRun trace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  return run_gpt(arguments);
}

TEST(Trace, ShowsEveryPartOfThePass) {
  const GptRun run = trace({kModel, "--ids", "1,2,3,4"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.out, {"|token row|", "Rotary", "|stream|", "Block 0", "q.projected", "attention.out",
                              "Top 5", "fp32", "int8"}));
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  const GptRun head = trace({kModel, "--ids", "1,2,3,4", "--block", "1", "--head", "1", "--query", "2"});
  EXPECT_TRUE(names(head.out, {"Head 1, query 2"}));
}

TEST(Trace, JsonHasTheSameNumbersForAnyThreads) {
  const GptRun one = trace({kModel, "--ids", "1,2,3,4", "--json", "--threads", "1"});
  const GptRun two = trace({kModel, "--ids", "1,2,3,4", "--json", "--threads", "3"});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.out, two.out);
  const json out = json::parse(one.out);
  EXPECT_EQ(out.at("tokens").size(), 4u);
  EXPECT_EQ(out.at("predictions").size(), 4u);
  EXPECT_EQ(out.at("predictions")[0].at("next").at("id"), 2);
  EXPECT_EQ(out.at("blocks").size(), out.at("config").at("n_layer").get<size_t>());
}

TEST(Trace, WritesOnePage) {
  const gpt::test::TempDir dir;
  const std::string path = dir.file("trace.html");
  const GptRun run = trace({kModel, "--ids", "1,2,3,4", "--html", path});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "");
  const std::string page = gpt::read_file(path);
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_EQ(page.find(std::filesystem::path(kModel).parent_path().string()), std::string::npos)
      << "tells where it was made";
}

TEST(Trace, WritesNoFilesOfOtherFormats) {
  const gpt::test::TempDir dir;
  const std::string path = dir.file("x.png");
  for (const char* flag : {"--html", "--svg"}) {
    const GptRun run = trace({kModel, "--ids", "1,2", flag, path});
    EXPECT_EQ(run.status, 2);
    EXPECT_TRUE(names(run.err, {flag, path}));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST(Trace, WritesPictures) {
  const gpt::test::TempDir dir;
  const std::string path = dir.file("picture.svg");
  const auto draws = [&](std::vector<std::string> arguments, const std::string& title) {
    arguments.insert(arguments.end(), {"--svg", path});
    const GptRun run = trace(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_NE(gpt::read_file(path).find("<title>" + title), std::string::npos) << title;
  };
  draws({kModel, "--ids", "1,2,3,4"}, "Attention of every head");
  draws({kModel, "--ids", "1,2,3,4", "--head", "1"}, "Attention of block 0, head 1");
  draws({kModel, "--ids", "1,2,3,4", "--figure", "residual"}, "The residual stream");
  draws({kModel, "--figure", "architecture"}, "Architecture of llama");
  draws({"gpt2:n_kv_head=2", "--figure", "architecture"}, "Architecture of gpt2");
  draws({"--demo", "rope"}, "One query and one key");
}

TEST(Trace, PicturesThatCannotBe) {
  const std::vector<std::vector<std::string>> wrong = {
      {kModel, "--ids", "1,2", "--figure", "residual"},
      {kModel, "--ids", "1,2", "--figure", "treemap", "--svg", "x.svg"},
      {kModel, "--ids", "1,2", "--head", "99", "--svg", "x.svg"},
      {kModel, "--ids", "1,2", "--block", "99", "--head", "0", "--svg", "x.svg"},
      {"--demo", "mask", "--svg", "x.svg"},
      {"--demo", "all", "--svg", "x.svg"},
      {"--figure", "architecture", "--svg", "x.svg"},
      {"no-such-preset", "--figure", "architecture", "--svg", "x.svg"}};
  for (const auto& arguments : wrong) {
    const GptRun run = trace(arguments);
    EXPECT_NE(run.status, 0) << arguments.back();
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

TEST(Trace, QuantisedWeights) {
  const gpt::test::TempDir dir;
  const std::string path = dir.file("model.gguf");
  ASSERT_EQ(run_gpt({"convert", kModel, path, "--to", "gguf", "--quant", "q8_0"}).status, 0);
  const GptRun run = trace({path, "--ids", "1,2,3,4", "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST(Trace, Demonstrations) {
  const GptRun all = trace({"--demo", "all"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_TRUE(names(all.out, {"identity:", "skeleton:", "mask:", "attention:", "scale:", "activations:",
                              "rope:", "norms:", "cache:"}));
  const GptRun forcing = trace({kModel, "--demo", "forcing", "--ids", "1,2,3,4"});
  EXPECT_EQ(forcing.status, 0) << forcing.err;
  EXPECT_TRUE(names(forcing.out, {"forcing:"}));
}

TEST(Trace, RefusesInOneLine) {
  struct Case {
    std::vector<std::string> arguments;
    int status;
    Facts facts;
  };
  for (const Case& c :
       {Case{{}, 2, {"MODEL", "gpt trace MODEL"}}, Case{{kModel}, 2, {"--prompt", "--prompt-file", "--ids"}},
        Case{{kModel, "--ids", "1", "--prompt", "x"}, 2, {"--prompt", "--ids"}},
        Case{{"gpt2", "--ids", "1"}, 1, {"gpt2", "gpt train --preset gpt2"}},
        Case{{kModel, "--ids", "1,999"}, 1, {999, 0, 42}},
        Case{{kModel, "--ids", "x"}, 2, {"--ids", "\"x\""}},
        Case{{kModel, "--ids", "1", "--block", "99"}, 2, {"--block", 0, 1, 99}},
        Case{{kModel, "--ids", "1", "--block", "al"}, 2, {"--block", "\"all\"", "\"al\""}},
        Case{{kModel, "--ids", "1", "--head", "99"}, 2, {"--head", 0, 1, 99}},
        Case{{kModel, "--ids", "1", "--query", "1"}, 2, {"--query", 0, 1}},
        Case{{kModel, "--ids", "1", "--top-k", "0"}, 2, {"--top-k", 1, 1000, 0}},
        Case{{kModel, "--ids", "1", "--dtype", "bf16"}, 2, {"--dtype", "fp32", "fp64", "\"bf16\""}},
        Case{{"--demo", "rop"}, 2, {"--demo", "\"rop\"", "rope"}},
        Case{{"--demo", "forcing"}, 2, {"--demo forcing", "MODEL", "--prompt"}},
        Case{{kModel, "--prompt", "text"}, 1, {"tokenizer.json", "--ids", "--tokenizer"}},
        Case{{kModel, "--ids", "1", "--html", "/nowhere/x.html"}, 1, {"/nowhere/x.html"}}}) {
    const GptRun run = trace(c.arguments);
    EXPECT_EQ(run.status, c.status) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_TRUE(names(run.err, c.facts));
  }
}

}  // namespace

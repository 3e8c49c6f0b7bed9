#include "trace/demos.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/parse.h"
#include "report/utf8_text.h"
#include "support/names.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

std::string run(const std::string& name, const DemoModel* model = nullptr) {
  ThreadPool pool(1);
  for (const Demo& demo : demos()) {
    if (demo.name == name) return demo.run({.backend = {pool, kernel_table(best_isa())}, .model = model});
  }
  throw std::logic_error("no demonstration " + name);
}

// Examples with the numbers of the course material that the lessons are based on.
TEST(Demos, NormsAsInTheBook) {
  EXPECT_TRUE(
      names(run("norms"),
            {"0.4784", "0.3827", "2.1288", "1.7031", "0.9435   0.0086  -0.1474   0.7733  -1.5780",
             "-1.3081   0.0601  -0.3161   1.4757   0.0884", "1.0548   0.0097  -0.1648   0.8645  -1.7642",
             "-1.4625   0.0672  -0.3534   1.6498   0.0989", "1.0007", "1.000000"}));
}

// With seed 100 of PyTorch and dropout enabled, the demo prints the logits of the chapter.
TEST(Demos, SkeletonHasTheLogitsOfTheChapter) {
  const std::string text = run("skeleton");
  EXPECT_TRUE(names(text, {77981184, "[2,4]", "[2,4,50257]"}));
  const auto row = [&](const std::string& place, size_t which) {
    size_t at = 0;
    for (size_t i = 0; i <= which; ++i)
      at = text.find(place, at + 1);
    std::string line = text.substr(at, text.find('\n', at) - at), out;
    for (const char c : line)
      if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    return out;
  };
  EXPECT_EQ(row("[0,0]", 0), "[0,0] 6109 -1.1073 -0.3112 0.4756 -0.0372 1.4159 0.0902");
  EXPECT_EQ(row("[1,3]", 0), "[1,3] 257 -0.1209 0.4775 0.3865 0.4667 -1.6924 -0.4930");
  EXPECT_EQ(row("[0,0]", 1).substr(0, 33), "[0,0] 6109 -0.7092 -0.3230 0.4402");
}

TEST(Demos, LossOfAGuessAndOfCertainty) {
  EXPECT_TRUE(names(run("loss"), {"2.3026       10.00", "0.0000        1.00", "10.8249    50257.00",
                                  "[2,5,10]", "[2,5]", "(10,10)", "(10)"}));
}

TEST(Demos, AttentionOfTheSeeds) {
  EXPECT_TRUE(
      names(run("attention"),
            {"    0.174    0.826", "    0.417    0.311    0.273", "    0.168    0.235    0.170    0.428",
             "    0.202    0.365    0.248    0.078    0.107", "1/sqrt(8) = 0.354",
             "     0.24     0.19     0.37     0.20", "     0.40     0.17     0.20     0.09     0.14"}));
}

TEST(Demos, MaskOfSixWords) {
  EXPECT_TRUE(
      names(run("mask"), {"   on     1    1    1    1    .    .", "  mat     1    1    1    1    1    1"}));
}

TEST(Demos, Activations) {
  EXPECT_TRUE(names(run("activations"), {"0.5000  0.2500", "1.5000  2.2500", "2.0000  4.0000", "-0.1700",
                                         "-0.7525", "4.7e-04", "2.70"}));
}

TEST(Demos, RotaryNumbers) {
  EXPECT_TRUE(names(
      run("rope"), {"0.749894", "0.562341", "0.421697", "7.49894", "5.62341", "4.21697", "[1, 128, 1, 32]"}));
}

TEST(Demos, ZeroedBlockIsTheIdentity) {
  const std::string text = run("identity");
  EXPECT_TRUE(std::ranges::any_of(lines_of(text), [](std::string_view line) {
    return line.ends_with(" 0.0000") && bool{names(line, {2})};
  })) << text;
}

TEST(Demos, CacheOfOneHeadIsASixth) {
  EXPECT_TRUE(names(run("cache"), {"1 (MQA)         6.00 KiB                6 x"}));
}

TEST(Demos, ForcingCountsWhatIsRight) {
  const RandomModel random(make_config(small_config("gpt2")), DType::f32);
  const std::vector<int32_t> ids = random_ids(10, 23, 4);
  const TokenNames token_names;
  const DemoModel model{random.model, ids, token_names};
  const std::string text = run("forcing", &model);
  EXPECT_TRUE(names(text, {5}));
  EXPECT_GT(lines_of(text).size(), 5u);
  const DemoModel short_model{random.model, std::span(ids).first(1), token_names};
  EXPECT_TRUE(names(run("forcing", &short_model), {2}));
}

TEST(Demos, FitATerminal) {
  for (const Demo& demo : demos()) {
    if (demo.needs_model) continue;
    const std::string text = run(demo.name);
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      EXPECT_LE(display_width(text.substr(at, end - at)), 106)
          << demo.name << ": " << text.substr(at, end - at);
      at = end + 1;
    }
  }
}

}  // namespace
}  // namespace gpt::test

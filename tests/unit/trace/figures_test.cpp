#include "trace/figures.h"

#include <gtest/gtest.h>

#include "support/count_of.h"

#include <algorithm>
#include <cmath>

#include "base/parse.h"
#include "support/names.h"
#include "trace/demos.h"
#include "trace/text.h"
#include "unit/trace/traced.h"

namespace gpt::test {
namespace {

// Checks that elements open and close in order and that all are closed, like an XML parser.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" >"));
    if (name.front() == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(open.back(), name.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  for (const char* bad : {"\"nan", "\"inf", "\"-inf", ">nan", ">inf"})
    EXPECT_EQ(svg.find(bad), std::string::npos) << bad;
}

class EveryFigure : public testing::TestWithParam<SmallConfig> {};

TEST_P(EveryFigure, IsWellFormed) {
  Traced t(GetParam().name, 5);
  const TokenNames names;
  std::vector<std::string> figures = {attention_svg(t.capture, names), residual_svg(t.capture),
                                      architecture_svg(t.capture.config(), "the model")};
  if (t.capture.n_layer() > 1) figures.push_back(attention_svg(t.capture, names, 1, 2));
  for (const std::string& svg : figures)
    expect_well_formed(svg);
}
INSTANTIATE_TEST_SUITE_P(Zoo, EveryFigure, testing::ValuesIn(small_configs()),
                         [](const auto& info) { return test_name(info.param.name); });

TEST(Figures, ArchitectureFollowsTheConfig) {
  const auto table = [](int64_t rows, const ModelConfig& c) {
    return fmt::format("[{}, {}]", rows, c.n_embd);
  };
  const ModelConfig openai = make_config(small_config("openai-gpt"));
  const std::string post = architecture_svg(openai, "x");
  EXPECT_TRUE(names(post, {table(openai.n_ctx, openai)})) << "positions are learned";
  EXPECT_FALSE(names(post, {10000})) << "and not rotations";
  EXPECT_EQ(test::count_of(post, "LayerNorm"), 2u) << "none at the end";
  EXPECT_GT(post.find("LayerNorm"), post.find("q·k")) << "after the attention";
  const ModelConfig shared = make_config(small_config("llama_tied_gqa"));
  const std::string llama = architecture_svg(shared, "x");
  EXPECT_FALSE(names(llama, {table(shared.n_ctx, shared)}));
  EXPECT_TRUE(names(llama, {10000, fmt::format("k, v: [T, 2, {}]", shared.head_dim)}));
  EXPECT_EQ(test::count_of(llama, table(shared.vocab_size, shared)), 1u) << "the output head has no other";
  EXPECT_EQ(test::count_of(llama, "RMSNorm"), 3u);
  const std::string capped = architecture_svg(make_config(small_config("nanochat_gqa")), "x");
  EXPECT_TRUE(names(capped, {"3 tanh(z / 3)", "ReLU²"}));
  EXPECT_EQ(test::count_of(capped, "RMSNorm"), 5u) << "also of the embedding, and of q and k";
}

// With many wide heads, the shape labels on the lines are long.
TEST(Figures, ArchitectureIsAsWideAsItsShapes) {
  const auto width = [](const std::string& svg) { return std::stod(svg.substr(svg.find(" width=\"") + 8)); };
  const std::string small = architecture_svg(make_config(small_config("llama_tied_gqa")), "x");
  const SmallConfig many{"many", "llama",
                         R"({"n_head": 128, "n_kv_head": 16, "head_dim": 1024, "n_embd": 16384})"};
  const std::string large = architecture_svg(make_config(many), "x");
  const std::string wire = "q: [T, 128, 1024]; k, v: [T, 16, 1024]";
  EXPECT_NE(large.find(wire), std::string::npos);
  EXPECT_GT(width(large), 326 + 134 + 6.5 * static_cast<double>(wire.size()));
  EXPECT_LT(width(small), width(large));
  EXPECT_EQ(test::count_of(small, ">MLP<"), 1u) << "the end of the legend";
}

// The norm after the embedding never has parameters, even if the other norms do.
TEST(Figures, EmbeddingNormHasNoParameters) {
  const SmallConfig config{"normed", "gpt2", R"({"embd_norm": true})"};
  const std::string svg = architecture_svg(make_config(config), "x");
  EXPECT_EQ(test::count_of(svg, "LayerNorm"), 4u);
  EXPECT_EQ(test::count_of(svg, " gain"), 3u);
}

TEST(Figures, HeadMapShowsTheWeightsOfThePass) {
  Traced t("gpt2", 5);
  const std::string svg = attention_svg(t.capture, TokenNames(), 1, 3);
  EXPECT_EQ(test::count_of(svg, "</title></rect>") - 8,
            // 15 weights on and below the diagonal of 5 x 5; 8 rectangles of the scale.
            15u);
  EXPECT_NE(svg.find(": 1.000</title>"), std::string::npos) << "the first token sees itself alone";
}

// Of 9 x 9 weights, each query sees the last three keys, which makes 24. All others are gray.
TEST(Figures, KeysOutsideTheWindowAreGrey) {
  Traced t("gpt2_window", 9);
  const std::string one = attention_svg(t.capture, TokenNames(), 0, 0);
  EXPECT_EQ(test::count_of(one, "</title></rect>") - 8, 24u);  // 8 rectangles of the scale
  EXPECT_EQ(test::count_of(one, "gt-plain\" fill-opacity"), 81u - 24u);
  const std::string all = attention_svg(t.capture, TokenNames());
  const size_t grey = all.find("gt-plain\" fill-opacity");
  ASSERT_NE(grey, std::string::npos);
  const size_t start = all.rfind("<path", grey);
  EXPECT_EQ(test::count_of(all.substr(start, grey - start), "M"), 81u - 24u);
  const std::string text = trace_text(t.capture, TokenNames(), {.head = 0});
  EXPECT_TRUE(std::ranges::any_of(lines_of(text), [](std::string_view line) {
    return line.ends_with('.') && bool{names(line, {0, 3})};
  })) << text;
}

TEST(Figures, TokenTextsAreEscaped) {
  Traced t("gpt2", 5);
  const TokenNames names([](int32_t) { return std::string("<b>&\x01\xff"); });
  const std::string svg = attention_svg(t.capture, names, 0, 0);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
  expect_well_formed(svg);
  expect_well_formed(architecture_svg(t.capture.config(), "<script>"));
}

TEST(Figures, LongPromptsAreCut) {
  Traced t("gpt2", 12);
  EXPECT_TRUE(names(attention_svg(t.capture, TokenNames()), {12}));
  EXPECT_LT(attention_svg(t.capture, TokenNames()).size(), 200000u);
  const SmallConfig longer{"longer", "gpt2", R"({"n_ctx": 64})"};
  Traced many(longer, 50);
  EXPECT_TRUE(names(attention_svg(many.capture, TokenNames()), {32, 50}));
  EXPECT_TRUE(names(attention_svg(many.capture, TokenNames(), 0, 0), {40, 50}));
}

TEST(Figures, OfDemonstrations) {
  ThreadPool pool(1);
  size_t drawn = 0;
  for (const Demo& demo : demos()) {
    if (demo.picture == nullptr) continue;
    expect_well_formed(demo.picture({.backend = {pool, kernel_table(best_isa())}}));
    ++drawn;
  }
  EXPECT_EQ(drawn, 4u);
}

TEST(Figures, ActivationsHaveTheirGates) {
  ThreadPool pool(1);
  const std::string svg = detail::picture_activations({.backend = {pool, kernel_table(best_isa())}});
  EXPECT_TRUE(names(svg, {"f(x)", "f(x) / x"}));
  for (const char* name : {"ReLU", "SiLU", "GELU"})
    EXPECT_GE(test::count_of(svg, name), 2u) << "of the function and of its gate";
  EXPECT_EQ(test::count_of(svg, "class=\"gc-ref\""), 2u);
}

TEST(Figures, HeatMapMarksWhatIsMasked) {
  const std::string svg = heat_maps_svg("t", {{"m", {{1, NAN}, {0.25, 0.75}}, false}});
  EXPECT_EQ(test::count_of(svg, ">×<"), 1u);
  EXPECT_EQ(test::count_of(svg, ">0.75<"), 1u);
}

}  // namespace
}  // namespace gpt::test

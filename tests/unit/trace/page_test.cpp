#include "trace/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/names.h"
#include "tensor/element.h"
#include "trace/text.h"
#include "trace/views.h"
#include "unit/trace/traced.h"

namespace gpt::test {
namespace {

using nlohmann::json;

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  const size_t at = from + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

json meta_of(const std::string& page) {
  return json::parse(between(page, "id=\"meta\">", "</script>"));
}

std::vector<float> numbers_of(const std::string& page, const std::string& name) {
  const std::string text = between(page, "id=\"t-" + name + "\">", "</script>");
  std::string bytes;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    if ((have += 6) < 8) continue;
    have -= 8;
    bytes += static_cast<char>(bits >> have);
  }
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

class EveryPage : public testing::TestWithParam<SmallConfig> {};

TEST_P(EveryPage, CarriesTheNumbersOfThePass) {
  Traced t(GetParam().name, 7);
  const std::string page = trace_page(t.capture, TokenNames(), {.model = "m", .computed = "fp32"});
  EXPECT_EQ(page.find("@@"), std::string::npos);
  const json meta = meta_of(page);
  EXPECT_EQ(meta.at("tokens").size(), t.ids.size());
  EXPECT_EQ(meta.at("lens").size(), static_cast<size_t>(t.capture.n_layer() + 1));
  const std::vector<float> q = numbers_of(page, "blocks.1.q");
  const int64_t width = t.capture.n_layer() > 1 ? t.capture.config().q_dim() : 0;
  ASSERT_EQ(q.size(), t.ids.size() * static_cast<size_t>(width));
  for (size_t i = 0; i < q.size(); ++i) {
    const TensorView& qkv = t.capture.block(1).qkv;
    EXPECT_EQ(q[i], element(qkv, static_cast<int64_t>(i) / width, static_cast<int64_t>(i) % width));
  }
  // At every temperature, the probabilities of the listed tokens and of the rest sum to 1. Checks temperature
  // 1.
  const std::vector<Prediction> said = predictions(t.capture, 12);
  for (size_t at = 0; at < said.size(); ++at) {
    const json& p = meta.at("predictions")[at];
    double sum = std::exp(p.at("rest")[9].get<double>() - said[at].log_sum);
    for (const json& top : p.at("top"))
      sum += std::exp(top[1].get<double>() - said[at].log_sum);
    EXPECT_NEAR(sum, 1, 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, EveryPage, testing::ValuesIn(small_configs()),
                         [](const auto& param) { return test_name(param.param.name); });

// Tokens may contain any bytes. These bytes must neither become markup nor send control sequences to a
// terminal.
TEST(Page, HostileTokensStayText) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>\x1b[31m\xff\xc0\"'&<!--";
  Traced t("gpt2", 7);
  const TokenNames names([&](int32_t) { return hostile; });
  const std::string page = trace_page(t.capture, names, {.model = "<b>" + hostile, .computed = "fp32"});
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_EQ(page.find("\x1b"), std::string::npos);
  EXPECT_EQ(page.find("onerror=alert(1)>\x1b"), std::string::npos);
  const json meta = meta_of(page);
  EXPECT_NE(meta.at("texts").begin()->get<std::string>().find("</script>"), std::string::npos);

  TraceRequest request{.model = hostile, .computed = "fp32"};
  const std::string text = trace_text(t.capture, names, request);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\xff'), std::string::npos);
  EXPECT_TRUE(json::accept(trace_json(t.capture, names, request)));
}

// The page loads nothing from other servers, and text never becomes markup.
TEST(Page, IsSelfContained) {
  Traced t("llama", 7);
  const std::string page = trace_page(t.capture, TokenNames(), {.model = "m", .computed = "fp32"});
  for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                           "fetch(", "XMLHttpRequest", "import(", "src=\"", "@import", "url("})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (size_t at = page.find("http"); at != std::string::npos; at = page.find("http", at + 1)) {
    const std::string place = page.substr(at, 26);
    EXPECT_TRUE(place.rfind("http://www.w3.org/2000/svg", 0) == 0 || place.rfind("http-equiv", 0) == 0)
        << place;
  }
}

TEST(Text, NamesTheFinalNormOnlyWhereThereIsOne) {
  for (const auto& [config, there] : {std::pair{"gpt2", true}, std::pair{"openai-gpt", false}}) {
    Traced t(config, 3);
    const std::string text = trace_text(t.capture, TokenNames(), {.model = "m", .computed = "fp32"});
    for (const char* name : {"final", "Final"})
      EXPECT_EQ(bool{names(text, {name})}, there) << config << ": " << text;
  }
}

// An underscore is not a space.
TEST(Text, SpacesAreDots) {
  const TokenNames names([](int32_t id) { return std::string(id == 0 ? " a b" : "_a_b"); });
  EXPECT_EQ(names.short_name(0, 10), "·a·b");
  EXPECT_EQ(names.short_name(1, 10), "_a_b");
}

TEST(Text, OneTokenAndEveryRequest) {
  Traced t("nanochat_gqa", 1);
  for (int64_t head = -1; head < 4; ++head) {
    TraceRequest request{
        .model = "m", .computed = "fp32", .block = -1, .head = head, .unicode = head % 2 == 0};
    EXPECT_TRUE(names(trace_text(t.capture, TokenNames(), request), {"m", "fp32", 5}));
  }
  EXPECT_NO_THROW(trace_page(t.capture, TokenNames(), {.model = "m", .computed = "fp32"}));
  EXPECT_ERROR(trace_text(t.capture, TokenNames(), {.block = 2}), ErrorCode::invalid_argument);
  EXPECT_ERROR(trace_text(t.capture, TokenNames(), {.head = 4}), ErrorCode::invalid_argument);
  EXPECT_ERROR(trace_text(t.capture, TokenNames(), {.query = 1}), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpt::test

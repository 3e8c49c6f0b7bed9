#include "text/jinja/jinja.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "support/error_of.h"
#include "support/names.h"

namespace gpt {
namespace {

using Json = nlohmann::ordered_json;
using test::error_of;
using test::Fact;
using test::names;
using test::refused;

std::string render(const std::string& source, const Json& context = Json::object()) {
  return JinjaTemplate(source).render(context);
}

// 12:30 on 1 January 2025, as in make_jinja.py.
constexpr int64_t kNow = 1735734600;

TEST(Jinja, GivesTheTextsOfJinja2) {
  std::ifstream in(GPT_SOURCE_DIR "/tests/data/jinja.json");
  const Json golden = Json::parse(in);
  int failing = 0;
  for (const Json& row : golden["cases"]) {
    const std::string source = golden["templates"][row[1].get<size_t>()];
    const Json& context = golden["contexts"][row[0].get<std::string>()];
    std::string text;
    const std::string error = error_of([&] { text = JinjaTemplate(source, {.now = kNow}).render(context); });
    if (row[2].is_null()) {
      EXPECT_NE(error, "no error") << source << "\ngave " << text;
      EXPECT_TRUE(error.starts_with("template, line ")) << error;
      ++failing;
    } else {
      EXPECT_EQ(error, "no error") << source << "\n" << row[0];
      EXPECT_EQ(text, row[2]) << source << "\n" << row[0];
    }
  }
  EXPECT_GE(golden["cases"].size(), 1000u);
  EXPECT_GE(failing, 100);
}

// Returns one letter per byte of the text for its origin: "0" for the template, "c" for the context, and
// letters from "A" for messages.
std::string origins(const JinjaText& text) {
  std::string out;
  for (const JinjaSpan& span : text.spans) {
    EXPECT_EQ(span.begin, out.size());
    const char letter = span.origin == JinjaSpan::kTemplate  ? '0'
                        : span.origin == JinjaSpan::kContext ? 'c'
                                                             : static_cast<char>('A' + span.origin);
    out.append(span.end - span.begin, letter);
  }
  EXPECT_EQ(out.size(), text.text.size());
  return out;
}

void expect_origins(const std::string& source, const std::string& text, const std::string& expected) {
  const Json context = {
      {"messages",
       {{{"role", "user"}, {"content", " ab,cd "}},
        {{"role", "assistant"}, {"content", "x\"y"}, {"tool_calls", {{{"name", "f"}, {"k", {"v", 1}}}}}}}},
      {"tools", {{{"n", "t"}}}},
      {"bos_token", "<s>"},
      {"date", "now"}};
  const JinjaText marked =
      JinjaTemplate("{% set u = messages[0].content %}{% set a = messages[1].content %}" + source)
          .render_marked(context);
  EXPECT_EQ(marked.text, text) << source;
  EXPECT_EQ(origins(marked), expected) << source;
}

TEST(Jinja, KnowsWhereEveryByteComesFrom) {
  expect_origins("{{ '<' + u + '>' }}", "< ab,cd >", "0AAAAAAA0");
  expect_origins("<{{ u|trim ~ a }}>", "<ab,cdx\"y>", "0AAAAABBB0");
  expect_origins("{{ bos_token }}{{ messages[0].role }}{{ date }}", "<s>usernow", "000ccccccc");
  expect_origins("{{ u[1:4] }}|{{ u[::-1] }}", "ab,| dc,ba ", "AAA0AAAAAAA");
  expect_origins("{{ u.split(',')[1].strip() ~ '-' ~ u.strip().upper() }}", "cd-AB,CD", "AA0AAAAA");
  expect_origins("{{ u.replace(',', '<,>') }}", " ab<,>cd ", "AAA000AAA");
  expect_origins("{{ 'p-q'.replace('-', a) }}", "px\"yq", "0BBB0");
  expect_origins("{{ a|tojson }}", "\"x\\\"y\"", "0BBBB0");
  expect_origins("{{ messages[1].tool_calls|tojson }}", R"([{"name": "f", "k": ["v", 1]}])",
                 "000BBBB0000B0000B00000B0000000");
  expect_origins("{{ [u|trim, a]|join(', ') }}", "ab,cd, x\"y", "AAAAA00BBB");
  expect_origins("{{ '%s=%s'|format(a, 1) }}{{ '{}!'.format(a) }}", "x\"y=1x\"y!", "BBB00BBB0");
  expect_origins("{% set b %}[{{ a }}]{% endset %}{{ b }}", "[x\"y]", "0BBB0");
  expect_origins("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(a)|title }}", "(X\"y)", "0BBB0");
  expect_origins("{% for c in a %}{{ c }}.{% endfor %}", "x.\".y.", "B0B0B0");
  expect_origins("{{ 'a\nb'|replace('\n', a)|indent(2) }}{{ a * 2 }}", "ax\"ybx\"yx\"y", "0BBB0BBBBBB");
  expect_origins("{{ tools }}{{ [a] }}", "[{'n': 't'}]['x\"y']", "000c0000c00000BBB00");
  expect_origins("{{ a|length }}{{ a == u }}{{ a|batch(2)|list|length }}", "3False2", "0000000");
  expect_origins("{{ a.partition('\"')|join('_') }}{{ a.center(5, '*') }}", "x_\"_y*x\"y*", "B0B0B0BBB0");
  expect_origins("{{ messages|map(attribute='content')|map('trim')|sort|join }}", "ab,cdx\"y", "AAAAABBB");
}

TEST(Jinja, MarksWhatIsGenerated) {
  const Json context = {{"messages", {{{"role", "assistant"}, {"content", "hi"}}}}};
  const JinjaText text =
      JinjaTemplate(
          "a{% for m in messages %}[{% generation %}{{ m.content }}<e>{% endgeneration %}]{% endfor %}")
          .render_marked(context);
  ASSERT_EQ(text.text, "a[hi<e>]");
  std::string marks;
  for (const JinjaSpan& span : text.spans)
    marks.append(span.end - span.begin, span.generated ? 'g' : '.');
  EXPECT_EQ(marks, "..ggggg.");
}

// The expected texts are from jinja2 with the tojson filter of transformers.
TEST(Jinja, IntegersBeyond64BitsKeepTheirDigits) {
  const Json context = parse_json_document(
      R"({"n":12345678901234567890123,"u":18446744073709551615,"m":-9223372036854775809,"b":10000000000000000000000,
          "l":[1e22,1e-7,1.0,-0.0,123456789012345678901234567890]})",
      "context");
  for (
      const auto& [source, text] : std::vector<std::pair<std::string, std::string>>{
          {R"j({{ n }})j", R"j(12345678901234567890123)j"},
          {R"j({{ l|tojson }})j", R"j([1e+22, 1e-07, 1.0, -0.0, 123456789012345678901234567890])j"},
          {R"j({{ n|tojson }} {{ u }} {{ m|string }})j",
           R"j(12345678901234567890123 18446744073709551615 -9223372036854775809)j"},
          {R"j({{ {n: u}|tojson }})j", R"j({"12345678901234567890123": 18446744073709551615})j"},
          {R"j({{ l }})j", R"j([1e+22, 1e-07, 1.0, -0.0, 123456789012345678901234567890])j"},
          {R"j({{ -n }} {{ n|abs }} {{ m|abs }} {{ -m }})j",
           R"j(-12345678901234567890123 12345678901234567890123 9223372036854775809 9223372036854775809)j"},
          {R"j({{ n|int == n }} {{ n|float }})j", R"j(True 1.2345678901234568e+22)j"},
          {R"j({{ n is integer }} {{ n is number }} {{ n is float }} {{ n is string }})j",
           R"j(True True False False)j"},
          {R"j({{ b == 1e22 }} {{ b + 0 == 1e22 if false else n == 1e22 }} {{ n > b }} {{ m < 0 }} {{ m < -9223372036854775808 }} {{ u >= 1.5 }} {{ n in [n] }})j",
           R"j(True False True True True True True)j"},
          {R"j({{ 12345678901234567890123 }} {{ 18446744073709551616 == u }})j",
           R"j(12345678901234567890123 False)j"},
          {R"j({{ [n, u, m, b, 0]|sort }})j",
           R"j([-9223372036854775809, 0, 18446744073709551615, 10000000000000000000000, 12345678901234567890123])j"},
          {R"j({{ n|round }})j", R"j(12345678901234567890123)j"},
          {R"j({{ 'x' if n else 'y' }} {{ '%s' % n }})j", R"j(x 12345678901234567890123)j"},
          {R"j({{ n|string|length }} {{ [n, b]|max }} {{ -9223372036854775808 }})j",
           R"j(23 12345678901234567890123 -9223372036854775808)j"}}) {
    EXPECT_EQ(render(source, context), text) << source;
    EXPECT_EQ(JinjaTemplate(source).render(nlohmann::json(context)), text) << source;
  }
  for (const char* source : {"{{ n + 1 }}", "{{ n / 2 }}", "{{ 'a' * n }}", "{{ '%d' % n }}"})
    EXPECT_NE(error_of([&] { render(source, context); }), "no error") << source;
}

TEST(Jinja, RefusesByNameAndLine) {
  const auto refuses = [](const std::string& source, const char* object, std::initializer_list<Fact> facts) {
    EXPECT_TRUE(refused([&] { render(source, {{"l", {1}}, {"s", "a"}}); }, object, facts)) << source;
  };
  refuses("a\nb\n{{ s|urlize }}", "template, line 3", {"urlize"});
  refuses("a\nb\n{{ s|nosuch }}", "template, line 3", {"nosuch"});
  refuses("{{ x is nosuch }}", "template, line 1", {"nosuch"});
  refuses("\n{% include 'x' %}", "template, line 2", {"include"});
  refuses("{% for x in l recursive %}{% endfor %}", "template, line 1", {"recursive"});
  refuses("{{ s.encode() }}", "template, line 1", {"encode", "str"});
  refuses("\n\n{{ l.append(1) }}", "template, line 3", {"append", "list"});
  refuses("{{ cycler(1) }}", "template, line 1", {"cycler"});
  refuses("{{ raise_exception('no ' ~ s ~ 1) }}", "template, line 1", {"no a1"});
  refuses("{{ missing.x }}", "template, line 1", {"'missing'"});
  refuses("{{ '%s: %(x)s'|format(1) }}", "template, line 1", {"dict"});
  refuses("{{ 9223372036854775807 + 1 }}", "template, line 1", {64});
  refuses("{{ s.__class__.__mro__ }}", "template, line 1", {"str", "'__class__'"});
  refuses("{{ ''.join.__globals__.x }}", "template, line 1", {"'__globals__'"});
  EXPECT_TRUE(refused([] { JinjaTemplate("\xff", {}, "a.jinja"); }, "a.jinja", {"byte 0", "UTF-8"}));
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i)
    out += text;
  return out;
}

TEST(Jinja, BoundsWhatATemplateDoes) {
  const auto bounded = [](const std::string& source, std::initializer_list<Fact> facts) {
    EXPECT_TRUE(refused([&] { render(source, {{"s", "text"}}); }, "template", facts)) << source.substr(0, 80);
  };
  constexpr int kSteps = 5'000'000, kBytes = 64 << 20;
  const std::string many = "{% for i in range(100000) %}", end = "{% endfor %}";
  bounded(many + many + "{% set x = 1 %}" + end + end, {kSteps});
  bounded(many + "{{ '" + std::string(10000, 'x') + "' }}" + end, {kBytes});
  bounded("{{ 'x' * 99999999999 }}", {kSteps});
  bounded("{% set ns = namespace(s='ab') %}" + many + "{% set ns.s = ns.s + ns.s %}" + end, {kBytes});
  bounded("{% set ns = namespace(l=[1]) %}" + many + "{% set ns.l = ns.l + ns.l %}" + end, {kBytes});
  bounded("{% set ns = namespace(l=[]) %}" + many + "{% set ns.l = [ns.l] %}" + end, {64});
  bounded("{% set ns = namespace() %}{% set ns.x = ns %}", {"line 1", "namespace"});
  bounded("{% set ns = namespace() %}{% for i in [1] %}{% set ns.x = loop %}{% endfor %}",
          {"line 1", "loop"});
  bounded("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {600});
  bounded("{{ range(10 ** 12) }}", {"range", 100000});
  bounded("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}", {100});
  bounded("{{ 1" + repeated(" + 1", 5000) + " }}", {100});
  bounded("{{ s" + repeated("|trim", 5000) + " }}", {100});
  bounded("{{ s" + repeated(".x", 5000) + " }}", {100});
  bounded("{{ " + repeated("not ", 5000) + "1 }}", {100});
  bounded("{{ " + repeated("-", 5000) + "1 }}", {100});
  bounded("{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}", {100});
  bounded("{{ 1" + repeated(" if 1 else 1", 5000) + " }}", {100});
  bounded(repeated("{% if 1 %}", 5000), {100});
  bounded("{% set " + repeated("(", 5000) + "a" + repeated(")", 5000) + " %}", {100});
  bounded("{{ '%9999999d' % 1 }}", {1000});
  bounded("{{ s|indent(99999999) }}", {"indent", 1000});
  bounded("{{ s.center(999999999999) }}", {kBytes});
  bounded("{{ [1]|batch(99999999)|list }}", {100000});
  bounded(std::string(2 << 20, 'x'), {1048576, 2 << 20});
  bounded("{{ strftime_now('" + repeated("%c", 200) + "') }}", {"strftime_now", 256, 400});
  Json deep = 1;
  for (int i = 0; i < 200; ++i)
    deep = Json::array({deep});
  EXPECT_TRUE(names(error_of([&] { JinjaTemplate("x").render(Json{{"deep", deep}}); }), {60}));
}

TEST(Jinja, TakesOptionsOfAnEnvironment) {
  const Json context = {{"x", 1}};
  const std::string source = "a\n  {% if x %}\nb\n{% endif %}\n";
  EXPECT_EQ(JinjaTemplate(source).render(context), "a\nb\n");
  const JinjaOptions plain{.trim_blocks = false, .lstrip_blocks = false, .keep_trailing_newline = true};
  EXPECT_EQ(JinjaTemplate(source, plain).render(context), "a\n  \nb\n\n");
  const JinjaOptions strict{.strict_undefined = true};
  for (const char* fails : {"{{ y }}", "{% if y %}{% endif %}", "{{ y ~ 'a' }}", "{{ y|upper }}",
                            "{{ y == 1 }}", "{% for i in y %}{% endfor %}", "{{ x.a }}", "{{ y|length }}"}) {
    EXPECT_EQ(error_of([&] { JinjaTemplate(fails).render(context); }), "no error") << fails;
    EXPECT_NE(error_of([&] { JinjaTemplate(fails, strict).render(context); }), "no error") << fails;
  }
  EXPECT_EQ(JinjaTemplate("{{ y is defined }}{{ y|default(2) }}", strict).render(context), "False2");
  // A missing else of an inline if is never an error, as in Jinja.
  EXPECT_EQ(JinjaTemplate("[{{ 1 if false }}{{ 'a' ~ (1 if false) }}]", strict).render(context), "[a]");
  EXPECT_EQ(JinjaTemplate("{{ d|tojson }}").render(nlohmann::json{{"d", {{"b", 1}, {"a", 2}}}}),
            R"({"a": 2, "b": 1})");
}

}  // namespace
}  // namespace gpt

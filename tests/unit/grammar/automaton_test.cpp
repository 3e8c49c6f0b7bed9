#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "grammar/grammar.h"
#include "grammar/rules.h"
#include "grammar/stacks.h"

namespace gpt::grammar {
namespace {

// Generates a random grammar of a few rules over "ab", with every kind of expression. Before a rule has
// consumed a byte, it only calls later rules, so there is no left recursion.
class RandomGrammar {
 public:
  RandomGrammar(Rules& rules, uint64_t seed) : rules_(rules), random_(seed, RandomSite::test) {
    for (int i = 0; i < 4; ++i)
      ids_.push_back(rules_.declare(std::string(1, static_cast<char>('A' + i))));
    for (int i = 0; i < 4; ++i)
      rules_.define(ids_[static_cast<size_t>(i)], expression(3, i + 1));
  }
  RuleId root() const { return ids_[0]; }

 private:
  // `first` is the first rule that the expression may call.
  Expr expression(int depth, int first) {
    switch (depth == 0 ? random_.below(4) : random_.below(10)) {
      case 0:
        return rules_.text("a");
      case 1:
        return rules_.text(random_.below(2) ? "b" : "ab");
      case 2:
        return random_.below(4) == 0 ? rules_.nothing() : rules_.byte_range('a', 'b');
      case 3:
      case 4: {
        const int rule = first + static_cast<int>(random_.below(4));
        if (rule < 4) return rules_.call(ids_[static_cast<size_t>(rule)]);
        return rules_.sequence({rules_.text("b"), rules_.call(ids_[random_.below(4)])});
      }
      case 5:
      case 6:
        return rules_.choice({expression(depth - 1, first), expression(depth - 1, first)});
      case 7:
        return rules_.sequence({expression(depth - 1, first), expression(depth - 1, first)});
      case 8: {
        std::vector<Rules::GraphEdge> edges;
        for (int i = 0; i < 5; ++i) {
          const auto from = static_cast<int32_t>(random_.below(3)),
                     to = static_cast<int32_t>(random_.below(4)) - 1;  // -1 is the end
          edges.push_back({from, to, expression(depth - 1, first)});
        }
        return rules_.graph(edges);
      }
      default: {
        const auto min = static_cast<int64_t>(random_.below(3));
        const int64_t max = random_.below(2) ? -1 : min + static_cast<int64_t>(random_.below(3));
        return rules_.repeat(expression(depth - 1, first), min, max, "test");
      }
    }
  }

  Rules& rules_;
  RandomStream random_;
  std::vector<RuleId> ids_;
};

// Computes all texts of up to kLength bytes for every expression. Repeats until no rule gets new texts.
class AllTexts {
 public:
  static constexpr size_t kLength = 6;
  using Texts = std::set<std::string>;

  explicit AllTexts(const Rules& rules) : rules_(rules), of_rules_(rules.rules().size()) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t r = 0; r < of_rules_.size(); ++r) {
        Texts texts = of(rules.rules()[r].body);
        changed |= texts != of_rules_[r];
        of_rules_[r] = std::move(texts);
      }
    }
  }
  const Texts& of_rule(RuleId rule) const { return of_rules_[static_cast<size_t>(rule)]; }

 private:
  static Texts product(const Texts& a, const Texts& b) {
    Texts texts;
    for (const std::string& x : a)
      for (const std::string& y : b)
        if (x.size() + y.size() <= kLength) texts.insert(x + y);
    return texts;
  }

  Texts of(Expr e) const {
    const Rules::Node& n = rules_.node(e);
    Texts texts;
    switch (n.kind) {
      case Rules::Kind::text:
        return {std::string(rules_.text_of(n))};
      case Rules::Kind::byte_range:
        for (int64_t byte = n.first; byte <= n.last; ++byte)
          texts.insert(std::string(1, static_cast<char>(byte)));
        return texts;
      case Rules::Kind::sequence:
        texts = {""};
        for (const Expr part : rules_.parts_of(n))
          texts = product(texts, of(part));
        return texts;
      case Rules::Kind::choice:
        for (const Expr option : rules_.parts_of(n))
          texts.merge(of(option));
        return texts;
      case Rules::Kind::repeat: {
        const Texts part = of(n.part);
        Texts rounds = {""};
        for (int64_t i = 0; i < n.first; ++i)
          rounds = product(rounds, part);
        const int64_t more = n.last < 0 ? static_cast<int64_t>(kLength) : n.last - n.first;
        texts = rounds;
        for (int64_t i = 0; i < more; ++i) {
          rounds = product(rounds, part);
          texts.insert(rounds.begin(), rounds.end());
        }
        return texts;
      }
      case Rules::Kind::call:
        return of_rules_[static_cast<size_t>(n.first)];
      case Rules::Kind::graph: {
        std::map<int32_t, Texts> at{{0, {""}}};  // the texts that lead to each state
        for (bool changed = true; changed;) {
          changed = false;
          for (const Rules::GraphEdge& edge : rules_.edges_of(n)) {
            Texts more = product(at[edge.from], of(edge.label));
            const size_t before = at[edge.to].size();
            at[edge.to].merge(more);
            changed |= at[edge.to].size() != before;
          }
        }
        return at[Rules::kGraphEnd];
      }
    }
    return texts;
  }

  const Rules& rules_;
  std::vector<Texts> of_rules_;
};

std::vector<std::string> all_strings(size_t length) {
  std::vector<std::string> strings{""};
  for (size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].size() == length) continue;
    strings.push_back(strings[i] + "a");
    strings.push_back(strings[i] + "b");
  }
  return strings;
}

// Up to kLength bytes, the automaton accepts exactly the texts of the grammar.
TEST(Automaton, HasTheTextsOfRandomGrammars) {
  const std::vector<std::string> strings = all_strings(AllTexts::kLength);
  int built = 0, texts = 0, recursive = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Rules rules{Limits{}};
    const RandomGrammar random(rules, seed);
    const AllTexts all(rules);
    const AllTexts::Texts& expected = all.of_rule(random.root());
    GrammarPtr grammar;
    try {
      grammar = std::make_shared<const Grammar>(build_automaton(rules, random.root()));
    } catch (const Error& e) {
      EXPECT_TRUE(expected.empty()) << e.what();  // no text of finite length
      continue;
    }
    ++built;
    recursive += grammar->automaton().rules.size() > 1;
    texts += static_cast<int>(expected.size());
    for (const std::string& text : strings)
      ASSERT_EQ(grammar->matches(text), expected.contains(text)) << "'" << text << "'";
    for (const std::string& text : expected)
      for (size_t n = 0; n <= text.size(); ++n)
        ASSERT_TRUE(grammar->begins(text.substr(0, n))) << text;
  }
  EXPECT_GT(built, 400);
  EXPECT_GT(recursive, 60);
  EXPECT_GT(texts, 4000);
}

// From every valid prefix, the end is reachable in the given number of bytes and in no fewer.
TEST(Automaton, KnowsTheDistanceToTheEnd) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Rules rules{Limits{}};
    const RandomGrammar random(rules, seed);
    const AllTexts all(rules);
    const AllTexts::Texts& expected = all.of_rule(random.root());
    if (expected.empty()) continue;
    const Grammar grammar(build_automaton(rules, random.root()));
    Stacks stacks(grammar.automaton(), grammar.byte_ends());
    for (const std::string& beginning : all_strings(3)) {
      Stacks::Position at = stacks.begin();
      for (const char c : beginning)
        if (at != Stacks::kDead) at = stacks.step(at, static_cast<uint8_t>(c));
      size_t least = 100;
      for (const std::string& text : expected)
        if (text.starts_with(beginning)) least = std::min(least, text.size() - beginning.size());
      if (at == Stacks::kDead) {
        EXPECT_EQ(least, 100u);
      } else if (least < 100) {
        EXPECT_EQ(stacks.distance(at), least) << beginning;
      } else {
        EXPECT_GT(stacks.distance(at) + beginning.size(), AllTexts::kLength);
      }
    }
  }
}

// A position has the same meaning in a different Stacks object.
TEST(Stacks, PositionsCanBeCopied) {
  const GrammarPtr grammar = compile_json_object();
  Stacks first(grammar->automaton(), grammar->byte_ends());
  const std::string text = R"({"a": [1, {"b": [[true, "x)", rest = R"("]]}], "c": null})";
  Stacks::Position at = first.begin();
  for (const char c : text)
    at = first.step(at, static_cast<uint8_t>(c));
  Stacks second(grammar->automaton(), grammar->byte_ends());
  Stacks::Position copy = first.copy_to(second, at);
  EXPECT_EQ(second.distance(copy), first.distance(at));
  EXPECT_EQ(copy, first.copy_to(second, at));
  for (const char c : rest) {
    ASSERT_NE(copy, Stacks::kDead);
    EXPECT_FALSE(second.may_end(copy));
    copy = second.step(copy, static_cast<uint8_t>(c));
  }
  EXPECT_TRUE(second.may_end(copy));
}

}  // namespace
}  // namespace gpt::grammar

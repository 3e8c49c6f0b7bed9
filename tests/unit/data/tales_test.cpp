#include "data/tales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "data/grammar.h"
#include "support/names.h"

namespace gpt {
namespace {

using Kind = Grammar::Symbol::Kind;
using Strings = std::set<std::string>;

// Computes the prefixes of `length` bytes of everything that a sequence of symbols can produce. The result
// may contain more prefixes, because a mention stands for every word of every table that fills its variable.
class Beginnings {
 public:
  explicit Beginnings(const Grammar& grammar)
      : grammar_(grammar), mentions_(static_cast<size_t>(grammar.variables())) {
    for (const auto& rule : grammar.rules()) {
      for (const auto& alternative : rule.alternatives) {
        for (const auto& symbol : alternative.symbols) {
          if (symbol.kind == Kind::word && symbol.variable >= 0) {
            mentions_[static_cast<size_t>(symbol.variable)].insert(symbol.target);
          }
        }
      }
    }
  }

  Strings of(const std::vector<Grammar::Symbol>& symbols, size_t length) const {
    Strings open = {""}, done;
    for (const auto& symbol : symbols) {
      Strings next;
      for (const std::string& start : open) {
        for (const std::string& tail : of(symbol, length - start.size())) {
          (start.size() + tail.size() < length ? next : done).insert(start + tail);
        }
      }
      open = std::move(next);
      EXPECT_LT(open.size() + done.size(), 1'000'000u);
      if (open.empty()) break;
    }
    done.merge(open);
    return done;
  }

  Strings of_table(int table, int form) const {
    Strings all;
    for (const auto& word : grammar_.tables()[static_cast<size_t>(table)].words) {
      all.insert(word.forms[static_cast<size_t>(form)]);
    }
    return all;
  }

 private:
  Strings of(const Grammar::Symbol& symbol, size_t length) const {
    Strings all;
    if (symbol.kind == Kind::literal) all.insert(symbol.text);
    if (symbol.kind == Kind::word) all = of_table(symbol.target, symbol.form);
    if (symbol.kind == Kind::mention) {
      for (const int table : mentions_[static_cast<size_t>(symbol.variable)])
        all.merge(of_table(table, symbol.form));
    }
    if (symbol.kind == Kind::rule) {
      for (const auto& alternative : grammar_.rules()[static_cast<size_t>(symbol.target)].alternatives) {
        all.merge(of(alternative.symbols, length));
      }
    }
    Strings cut;
    for (const std::string& text : all)
      cut.insert(text.substr(0, length));
    return cut;
  }

  const Grammar& grammar_;
  std::vector<std::set<int>> mentions_;
};

// Returns a string of one set that is a prefix of a string of another set, or an empty string.
std::string clash(const std::vector<Strings>& sets) {
  std::vector<std::pair<std::string, size_t>> all;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const std::string& text : sets[i])
      all.emplace_back(text, i);
  }
  std::ranges::sort(all);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size() && all[j].first.starts_with(all[i].first); ++j) {
      if (all[i].second != all[j].second) return all[i].first + " | " + all[j].first;
    }
  }
  return "";
}

// Returns -log of the probability of a text of stories, by finding all derivations of each story. The last
// story may be incomplete. Returns infinity if the grammar cannot produce the text.
double tales_nats(std::string_view text) {
  constexpr std::string_view kEnd = "\n\n";  // end of a story
  double nats = 0;
  while (!text.empty()) {
    const size_t end = text.find(kEnd);
    const bool complete = end != std::string_view::npos;
    const std::string_view story = complete ? text.substr(0, end + kEnd.size()) : text;
    nats -= tales_grammar().score(story, complete).log_p;
    text.remove_prefix(story.size());
  }
  return nats;
}

// Returns a reason why a grammar may be ambiguous, or an empty string. An empty result proves that the
// grammar is unambiguous. In every table, no word is a prefix of another. In every rule, the prefixes of two
// alternatives are never prefixes of each other. The next bytes of a text then determine each choice, so the
// text has one derivation.
std::string find_ambiguity(const Grammar& grammar) {
  const Beginnings beginnings(grammar);
  for (const auto& rule : grammar.rules()) {
    std::string found;
    for (const size_t length : {1u, 2u, 4u, 6u, 8u, 12u, 16u, 20u, 24u, 32u}) {
      std::vector<Strings> sets;
      for (const auto& alternative : rule.alternatives)
        sets.push_back(beginnings.of(alternative.symbols, length));
      found = clash(sets);
      if (found.empty()) break;
    }
    if (!found.empty()) return rule.name + ": " + found;
    for (const auto& alternative : rule.alternatives) {
      for (const auto& symbol : alternative.symbols) {
        if (symbol.kind != Kind::word) continue;
        std::vector<Strings> words;
        for (const auto& word : grammar.tables()[static_cast<size_t>(symbol.target)].words) {
          words.push_back({word.forms[static_cast<size_t>(symbol.form)]});
        }
        const std::string twins = clash(words);
        if (!twins.empty()) return rule.name + ": " + twins;
      }
    }
  }
  return "";
}

TEST(Grammar, AmbiguityIsFound) {
  EXPECT_EQ(find_ambiguity(Grammar("=s\n1 a{t}\n1 b\n@t : x yx\n")), "");
  EXPECT_NE(find_ambiguity(Grammar("=s\n1 ab\n1 abc\n")), "");
  EXPECT_NE(find_ambiguity(Grammar("=s\n1 {t}c\n@t : a ab\n")), "");
  EXPECT_NE(find_ambiguity(Grammar("=s\n1 {r}\n1 {q}\n=r\n1 one x\n=q\n1 one x\n")), "");
}

TEST(Grammar, ScoresSumOverDerivations) {
  const Grammar grammar("=s\n1 {v=t}{u}{v.a}\n1 b\n@t : a*3 ab\n@u : b c*3\n");
  // s -> v u "v.a": v = a (3/4), u = b (1/4).
  EXPECT_NEAR(std::exp(grammar.score("aban a", true).log_p), 0.5 * 0.75 * 0.25, 1e-12);
  EXPECT_NEAR(std::exp(grammar.score("abban ab", true).log_p), 0.5 * 0.25 * 0.25, 1e-12);
  // As an incomplete text, "ab" also matches v = ab (1/4) followed by anything.
  const Grammar::Score start = grammar.score("ab", false);
  EXPECT_NEAR(std::exp(start.log_p), 0.5 * (0.75 * 0.25 + 0.25), 1e-12);
  EXPECT_EQ(start.derivations, 2);
  EXPECT_EQ(grammar.score("x", false).derivations, 0);
  EXPECT_EQ(grammar.score("b", true).derivations, 1);
  EXPECT_EQ(grammar.score("ba", true).derivations, 0);
  EXPECT_NEAR(std::exp(grammar.score("", false).log_p), 1, 1e-12);
}

TEST(Grammar, ExpectationIsExact) {
  // The texts are "a an a" (1/2 * 3/4), "uv an uv" (1/2 * 1/4) and "q" (1/2).
  const Grammar grammar("=s\n1 {v=t} {v.a}\n1 q\n@t : a*3 uv\n");
  const Grammar::Expectation found = grammar.expectation();
  EXPECT_NEAR(found.bytes, 0.375 * 6 + 0.125 * 8 + 0.5, 1e-12);
  EXPECT_NEAR(found.nats, -(0.375 * std::log(0.375) + 0.125 * std::log(0.125) + 0.5 * std::log(0.5)), 1e-12);
}

// Different alternatives fill a variable from different tables, and a later symbol mentions it.
TEST(Grammar, ExpectationMixesMarginals) {
  const Grammar grammar("=s\n1 {r}{v}\n=r\n1 {v=one}\n3 {v=two}\n@one : x\n@two : yy zzzz\n");
  EXPECT_NEAR(grammar.expectation().bytes, 2 * (0.25 * 1 + 0.75 * 3), 1e-12);
}

TEST(Tales, GrammarIsUnambiguous) {
  EXPECT_EQ(find_ambiguity(tales_grammar()), "");
}

TEST(Tales, EveryStoryHasOneDerivationWithTheGeneratorsProbability) {
  for (uint64_t story = 0; story < 3000; ++story) {
    RandomStream random(5, RandomSite::test, 0, story);
    std::string text;
    const double nats = tales_grammar().sample(random, text);
    const Grammar::Score score = tales_grammar().score(text, true);
    ASSERT_EQ(score.derivations, 1) << text;
    ASSERT_NEAR(-score.log_p, nats, 1e-9) << text;
    ASSERT_NEAR(tales_nats(text), nats, 1e-9);
  }
}

TEST(Tales, EntropyAgreesWithTwoMegabytes) {
  const int64_t bytes = 2'000'000;
  const TalesText tales = generate_tales(bytes, 1);
  const double floor = tales_entropy_per_byte();
  EXPECT_NEAR(tales.nats / static_cast<double>(bytes), floor, 0.003 * floor);
  EXPECT_GT(floor, 0.3);
  EXPECT_LT(floor, 0.6);
}

// The text is cut at any byte, within a word or between stories. The reported value equals that of the
// scorer. An additional byte never makes the text more probable.
TEST(Tales, CutTextsAreScoredExactly) {
  double before = 0;
  for (int64_t bytes = 1; bytes < 1500; ++bytes) {
    const TalesText tales = generate_tales(bytes, 3);
    ASSERT_EQ(static_cast<int64_t>(tales.text.size()), bytes);
    ASSERT_NEAR(tales.nats, tales_nats(tales.text), 1e-9);
    ASSERT_GE(tales.nats, before - 1e-9);
    before = tales.nats;
  }
}

// The probabilities of all one-byte continuations of a text sum to the probability of the text.
TEST(Tales, NextByteProbabilitiesSumToOne) {
  const std::string text = generate_tales(900, 4).text;
  for (size_t size = 0; size < text.size(); size += 7) {
    const std::string start = text.substr(0, size);
    double sum = 0;
    for (int byte = 0; byte < 128; ++byte) {
      sum += std::exp(tales_nats(start) - tales_nats(start + static_cast<char>(byte)));
    }
    ASSERT_NEAR(sum, 1, 1e-9) << start;
  }
}

TEST(Tales, ForeignTextHasNoProbability) {
  std::string text = generate_tales(3000, 2).text;
  EXPECT_TRUE(std::isfinite(tales_nats(text)));
  text[1000] = '#';
  EXPECT_TRUE(std::isinf(tales_nats(text)));
  EXPECT_EQ(tales_nats(""), 0);
}

TEST(Tales, SeedsAndStoryNumbersDecideTheText) {
  const TalesText a = generate_tales(50000, 1);
  EXPECT_EQ(a.text, generate_tales(50000, 1).text);
  EXPECT_NE(a.text, generate_tales(50000, 2).text);
  EXPECT_TRUE(generate_tales(60000, 1).text.starts_with(a.text));
  // Generation with `next_story` continues the same endless text.
  const std::string longer = generate_tales(60000, 1).text;
  const std::string rest = generate_tales(5000, 1, a.next_story).text;
  EXPECT_NE(longer.find(rest.substr(0, 3000)), std::string::npos);
  EXPECT_EQ(a.text.find(rest.substr(0, rest.find("\n\n"))), std::string::npos);
  EXPECT_ERROR(generate_tales(0, 1), ErrorCode::invalid_argument);
  EXPECT_ERROR(generate_tales(-5, 1), ErrorCode::invalid_argument);
  EXPECT_ERROR(generate_tales(5, 1, -1), ErrorCode::invalid_argument);
}

TEST(Tales, TextIsPlainAndItsArticlesAgree) {
  const std::string text = generate_tales(500000, 9).text;
  for (const char c : text)
    ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  EXPECT_EQ(text.find("  "), std::string::npos);
  EXPECT_EQ(text.find("\n\n\n"), std::string::npos);
  EXPECT_EQ(text.find('{'), std::string::npos);
  for (size_t at = 1; at + 3 < text.size(); ++at) {
    if (text.compare(at - 1, 4, " an ") == 0) {
      ASSERT_NE(std::string_view("aeiou").find(text[at + 3]), std::string_view::npos) << text.substr(at, 30);
    }
    if (text.compare(at - 1, 3, " a ") == 0) {
      ASSERT_EQ(std::string_view("aeiou").find(text[at + 2]), std::string_view::npos) << text.substr(at, 30);
    }
  }
}

}  // namespace
}  // namespace gpt

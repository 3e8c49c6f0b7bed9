#include "data/grammar.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "data/grammar_reader.h"

namespace gpt {
namespace {

using Kind = Grammar::Symbol::Kind;
using Symbols = std::vector<Grammar::Symbol>;

constexpr int kMaxDepth = 64;  // far beyond any grammar without recursion that a person writes

const std::string& form_of(const Grammar::Word& word, const Grammar::Symbol& symbol) {
  const std::string& form = word.forms[static_cast<size_t>(symbol.form)];
  GPT_ASSERT(!form.empty());
  return form;
}

// Draws one of several weighted choices.
template <class Choice>
const Choice& pick(const std::vector<Choice>& choices, uint64_t total, RandomStream& random) {
  uint64_t left = random.below(total);
  size_t i = 0;
  while (left >= choices[i].weight)
    left -= choices[i++].weight;
  return choices[i];
}

struct Sampler {
  const Grammar& grammar;
  RandomStream& random;
  std::string& out;
  std::vector<const Grammar::Word*> values;
  double nats = 0;

  void rule(int number) {
    const Grammar::Rule& rule = grammar.rules()[static_cast<size_t>(number)];
    const auto& alternative = pick(rule.alternatives, rule.weight, random);
    nats -= alternative.log_p;
    for (const Grammar::Symbol& symbol : alternative.symbols)
      emit(symbol);
  }

  void emit(const Grammar::Symbol& symbol) {
    const auto variable = static_cast<size_t>(symbol.variable);
    if (symbol.kind == Kind::literal) {
      out += symbol.text;
    } else if (symbol.kind == Kind::rule) {
      rule(symbol.target);
    } else if (symbol.kind == Kind::mention) {
      GPT_ASSERT(values[variable] != nullptr);
      out += form_of(*values[variable], symbol);
    } else {
      const Grammar::Table& table = grammar.tables()[static_cast<size_t>(symbol.target)];
      const Grammar::Word& word = pick(table.words, table.weight, random);
      nats -= word.log_p;
      out += form_of(word, symbol);
      if (symbol.variable >= 0) values[variable] = &word;
    }
  }
};

// Finds every derivation of a text by trying all choices and giving up at the first byte that differs.
struct Scorer {
  // What remains to be derived: the rest of one alternative, then of those around it.
  struct Rest {
    const Grammar::Symbol* at;
    const Grammar::Symbol* end;
    const Rest* outer;
  };

  const Grammar& grammar;
  bool complete;
  std::vector<const Grammar::Word*> values;
  Grammar::Score score{-std::numeric_limits<double>::infinity(), 0};

  void found(double log_p) {
    const double high = std::max(score.log_p, log_p);
    score.log_p = high + std::log(std::exp(score.log_p - high) + std::exp(log_p - high));
    ++score.derivations;
  }

  // Takes `expected` from the text; when the text ends inside it and need not be complete, everything
  // that could follow has probability 1 in total.
  bool take(std::string_view& text, std::string_view expected, double log_p) {
    if (text.starts_with(expected)) {
      text.remove_prefix(expected.size());
      return true;
    }
    if (!complete && expected.starts_with(text)) found(log_p);
    return false;
  }

  void derive(Rest rest, std::string_view text, double log_p) {
    while (true) {
      if (!complete && text.empty()) return found(log_p);
      while (rest.at == rest.end && rest.outer != nullptr)
        rest = *rest.outer;
      if (rest.at == rest.end) {
        if (text.empty()) found(log_p);
        return;
      }
      const Grammar::Symbol& symbol = *rest.at++;
      if (symbol.kind == Kind::rule) {
        for (const auto& alternative : grammar.rules()[static_cast<size_t>(symbol.target)].alternatives) {
          const Symbols& symbols = alternative.symbols;
          derive({symbols.data(), symbols.data() + symbols.size(), &rest}, text, log_p + alternative.log_p);
        }
        return;
      }
      if (symbol.kind == Kind::word) return derive_word(symbol, rest, text, log_p);
      const bool literal = symbol.kind == Kind::literal;
      GPT_ASSERT(literal || values[static_cast<size_t>(symbol.variable)] != nullptr);
      if (!take(text, literal ? symbol.text : form_of(*values[static_cast<size_t>(symbol.variable)], symbol),
                log_p)) {
        return;
      }
    }
  }

  void derive_word(const Grammar::Symbol& symbol, Rest rest, std::string_view text, double log_p) {
    for (const Grammar::Word& word : grammar.tables()[static_cast<size_t>(symbol.target)].words) {
      std::string_view after = text;
      if (!take(after, form_of(word, symbol), log_p + word.log_p)) continue;
      if (symbol.variable < 0) {
        derive(rest, after, log_p + word.log_p);
        continue;
      }
      const Grammar::Word*& value = values[static_cast<size_t>(symbol.variable)];
      const Grammar::Word* const before = std::exchange(value, &word);
      derive(rest, after, log_p + word.log_p);
      value = before;
    }
  }
};

// Carries the marginal distribution of every variable through all choices.
struct Expecter {
  using Marginal = std::map<const Grammar::Word*, double>;
  using Marginals = std::vector<Marginal>;

  const Grammar& grammar;

  Grammar::Expectation rule(int number, Marginals& marginals, int depth) const {
    GPT_ASSERT(depth < kMaxDepth);
    Grammar::Expectation sum;
    Marginals mixed(marginals.size());
    for (const auto& alternative : grammar.rules()[static_cast<size_t>(number)].alternatives) {
      const double p = std::exp(alternative.log_p);
      Marginals inside = marginals;
      sum.nats -= p * alternative.log_p;
      for (const Grammar::Symbol& symbol : alternative.symbols) {
        const Grammar::Expectation part = one(symbol, inside, depth);
        sum.nats += p * part.nats;
        sum.bytes += p * part.bytes;
      }
      for (size_t v = 0; v < inside.size(); ++v) {
        for (const auto& [word, q] : inside[v])
          mixed[v][word] += p * q;
      }
    }
    marginals = std::move(mixed);
    return sum;
  }

  Grammar::Expectation one(const Grammar::Symbol& symbol, Marginals& marginals, int depth) const {
    Grammar::Expectation sum;
    if (symbol.kind == Kind::literal) return {0, static_cast<double>(symbol.text.size())};
    if (symbol.kind == Kind::rule) return rule(symbol.target, marginals, depth + 1);
    if (symbol.kind == Kind::mention) {
      for (const auto& [word, p] : marginals[static_cast<size_t>(symbol.variable)]) {
        sum.bytes += p * static_cast<double>(form_of(*word, symbol).size());
      }
      return sum;
    }
    Marginal marginal;
    for (const Grammar::Word& word : grammar.tables()[static_cast<size_t>(symbol.target)].words) {
      const double p = std::exp(word.log_p);
      marginal[&word] = p;
      sum.nats -= p * word.log_p;
      sum.bytes += p * static_cast<double>(form_of(word, symbol).size());
    }
    if (symbol.variable >= 0) marginals[static_cast<size_t>(symbol.variable)] = std::move(marginal);
    return sum;
  }
};

}  // namespace

Grammar::Grammar(std::string_view source) {
  GrammarReader(*this).read(source);
}

double Grammar::sample(RandomStream& random, std::string& out) const {
  Sampler sampler{*this, random, out, std::vector<const Word*>(variables_.size()), 0};
  sampler.rule(0);
  return sampler.nats;
}

Grammar::Score Grammar::score(std::string_view text, bool complete) const {
  Scorer scorer{*this, complete, std::vector<const Word*>(variables_.size())};
  Symbol start;
  start.kind = Kind::rule;
  start.target = 0;
  scorer.derive({&start, &start + 1, nullptr}, text, 0);
  return scorer.score;
}

Grammar::Expectation Grammar::expectation() const {
  std::vector<Expecter::Marginal> marginals(variables_.size());
  return Expecter{*this}.rule(0, marginals, 0);
}

}  // namespace gpt

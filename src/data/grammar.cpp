#include "data/grammar.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/parse.h"

namespace gpt {
namespace {

using Kind = Grammar::Symbol::Kind;
using Symbols = std::vector<Grammar::Symbol>;

constexpr int kMaxDepth = 64;  // maximum nesting of rules, far beyond hand-written grammars

const std::string& form_of(const Grammar::Word& word, const Grammar::Symbol& symbol) {
  const std::string& form = word.forms[static_cast<size_t>(symbol.form)];
  GPT_ASSERT(!form.empty());
  return form;
}

// Sets the total weight and the log probability of each choice.
template <class Choice>
void normalise(std::vector<Choice>& choices, uint64_t& total) {
  GPT_ASSERT(!choices.empty());
  total = 0;
  for (const Choice& choice : choices)
    total += choice.weight;
  for (Choice& choice : choices)
    choice.log_p = std::log(static_cast<double>(choice.weight) / static_cast<double>(total));
}

// Samples one of several weighted choices.
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

// Finds every derivation of a text. Tries all choices and abandons a choice at the first byte that differs.
struct Scorer {
  // List of the symbols that remain to be derived. Each element is the rest of one alternative. `outer`
  // points to the rest of the enclosing alternative.
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

  // Removes `expected` from the beginning of the text. Returns false if the text does not begin with
  // `expected`. Also returns false if the text ends inside `expected`. If `complete` is false, this
  // derivation is then counted with its current probability, because the probabilities of all continuations
  // add up to 1.
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

// Computes the expected entropy and length. Each step updates the marginal distribution of every variable.
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

std::vector<std::string_view> words_of(std::string_view text, char separator) {
  std::vector<std::string_view> words = split(text, separator);
  std::erase(words, "");
  return words;
}

uint64_t read_weight(std::string_view digits) {
  const auto weight = parse_number<uint64_t>(digits);
  GPT_ASSERT(weight && *weight >= 1);
  return *weight;
}

int find_or_add(std::map<std::string, int, std::less<>>& names, std::string_view name) {
  return names.emplace(name, static_cast<int>(names.size())).first->second;
}

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

using Names = std::map<std::string, int, std::less<>>;

// Parses the notation of grammar.h. A mistake in a grammar is a programming error and fails an assertion.
class GrammarReader {
 public:
  GrammarReader(std::vector<Grammar::Rule>& rules, std::vector<Grammar::Table>& tables, Names& variables)
      : grammar_rules_(rules), grammar_tables_(tables), variables_(variables) {}

  void read(std::string_view source) {
    find_or_add(forms_, "");
    // Collect all names first, so that a rule can refer to rules and tables defined below it.
    const auto lines = words_of(source, '\n');
    for (const std::string_view line : lines) {
      if (line[0] == '=') {
        GPT_ASSERT(rules_.emplace(line.substr(1), static_cast<int>(rules_.size())).second);
      } else if (line[0] == '@') {
        const std::string_view name = line.substr(1, line.find(' ') - 1);
        GPT_ASSERT(tables_.emplace(name, static_cast<int>(tables_.size())).second);
      }
    }
    for (const std::string_view line : lines) {
      if (line[0] == '@') {
        read_table_line(line);
      } else if (line.starts_with("  ")) {
        read_words(line);
      } else if (line[0] == '=') {
        grammar_rules_.push_back({std::string(line.substr(1)), {}, 0});
      } else {
        read_alternative(line);
      }
    }
    fill_forms();
    set_probabilities();
  }

 private:
  void read_table_line(std::string_view line) {
    const size_t colon = line.find(':');
    GPT_ASSERT(colon != std::string_view::npos);
    table_forms_.clear();
    const auto header = words_of(line.substr(0, colon), ' ');
    for (size_t i = 1; i < header.size(); ++i) {
      const size_t equals = header[i].find('=');
      GPT_ASSERT(equals != std::string_view::npos);
      table_forms_.emplace_back(form_number(header[i].substr(0, equals)), header[i].substr(equals + 1));
    }
    grammar_tables_.push_back({std::string(header[0].substr(1)), {}, 0});
    read_words(line.substr(colon + 1));
  }

  void read_words(std::string_view words) {
    for (const std::string_view entry : words_of(words, ' ')) {
      Grammar::Word word;
      const size_t star = std::min(entry.find('*'), entry.size());
      if (star < entry.size()) word.weight = read_weight(entry.substr(star + 1));
      std::string text(entry.substr(0, star));
      for (char& c : text)
        c = c == '_' ? ' ' : c;
      word.forms = {text};
      for (const auto& [form, value] : table_forms_) {
        word.forms.resize(std::max(word.forms.size(), static_cast<size_t>(form) + 1));
        word.forms[static_cast<size_t>(form)] = value;
      }
      grammar_tables_.back().words.push_back(std::move(word));
    }
  }

  void read_alternative(std::string_view line) {
    GPT_ASSERT(!grammar_rules_.empty());
    const size_t blank = line.find(' ');
    GPT_ASSERT(blank != std::string_view::npos);
    Grammar::Alternative alternative;
    alternative.weight = read_weight(line.substr(0, blank));
    std::string literal;
    const auto flush = [&] {
      if (!literal.empty()) {
        alternative.symbols.push_back({Kind::literal, std::move(literal), -1, -1, 0});
      }
      literal.clear();
    };
    const std::string_view text = line.substr(blank + 1);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{') {
        flush();
        const size_t close = text.find('}', i);
        GPT_ASSERT(close != std::string_view::npos);
        alternative.symbols.push_back(read_symbol(text.substr(i + 1, close - i - 1)));
        i = close;
      } else if (text.substr(i).starts_with("\\n")) {
        literal += '\n';
        ++i;
      } else {
        literal += text[i];
      }
    }
    flush();
    grammar_rules_.back().alternatives.push_back(std::move(alternative));
  }

  Grammar::Symbol read_symbol(std::string_view inside) {
    Grammar::Symbol symbol;
    const size_t dot = std::min(inside.find('.'), inside.size());
    symbol.form = form_number(inside.substr(std::min(dot + 1, inside.size())));
    std::string_view name = inside.substr(0, dot);
    const size_t equals = name.find('=');
    if (equals != std::string_view::npos) {
      symbol.variable = find_or_add(variables_, name.substr(0, equals));
      // A variable must not have the name of a rule or table, because a mention would resolve to the rule or
      // table.
      GPT_ASSERT(!rules_.contains(name.substr(0, equals)) && !tables_.contains(name.substr(0, equals)));
      name.remove_prefix(equals + 1);
    }
    if (const auto table = tables_.find(name); table != tables_.end()) {
      symbol.kind = Kind::word;
      symbol.target = table->second;
    } else if (const auto rule = rules_.find(name); rule != rules_.end()) {
      GPT_ASSERT(equals == std::string_view::npos && dot == inside.size());
      symbol.kind = Kind::rule;
      symbol.target = rule->second;
    } else {
      GPT_ASSERT(equals == std::string_view::npos);
      symbol.kind = Kind::mention;
      symbol.variable = find_or_add(variables_, name);
    }
    return symbol;
  }

  int form_number(std::string_view name) { return find_or_add(forms_, name); }

  std::string make_form(const Grammar::Word& word, std::string_view name) const {
    if (name == "a") {
      const bool vowel = std::string_view("aeiou").find(word.forms[0][0]) != std::string_view::npos;
      return (vowel ? "an " : "a ") + word.forms[0];
    }
    const bool cap = name == "cap";
    if (!cap && (name.empty() || !is_upper(name[0]))) return "";
    std::string base(name);
    base[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(base[0])));
    const auto form = cap ? forms_.find("") : forms_.find(base);
    if (form == forms_.end()) return "";
    std::string text = word.forms[static_cast<size_t>(form->second)];
    if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    return text;
  }

  void fill_forms() {
    for (Grammar::Table& table : grammar_tables_) {
      for (Grammar::Word& word : table.words) {
        word.forms.resize(forms_.size());
        // Capitalized forms are derived from the other forms, so fill the other forms first.
        for (const bool capitals : {false, true}) {
          for (const auto& [name, number] : forms_) {
            std::string& form = word.forms[static_cast<size_t>(number)];
            if (form.empty() && capitals == (!name.empty() && is_upper(name[0])))
              form = make_form(word, name);
          }
        }
      }
    }
  }

  void set_probabilities() {
    for (Grammar::Table& table : grammar_tables_)
      normalise(table.words, table.weight);
    for (Grammar::Rule& rule : grammar_rules_)
      normalise(rule.alternatives, rule.weight);
  }

  std::vector<Grammar::Rule>& grammar_rules_;
  std::vector<Grammar::Table>& grammar_tables_;
  Names& variables_;
  Names rules_, tables_, forms_;
  std::vector<std::pair<int, std::string>> table_forms_;  // form numbers and values of the table being read
};

}  // namespace

Grammar::Grammar(std::string_view source) {
  GrammarReader(rules_, tables_, variables_).read(source);
}

double Grammar::sample(RandomStream& random, std::string& out) const {
  Values values;
  return sample(random, out, values);
}

double Grammar::sample(RandomStream& random, std::string& out, Values& values) const {
  Sampler sampler{*this, random, out, Values(variables_.size()), 0};
  sampler.rule(0);
  values = std::move(sampler.values);
  return sampler.nats;
}

size_t Grammar::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  GPT_ASSERT(found != variables_.end());
  return static_cast<size_t>(found->second);
}

const Grammar::Table& Grammar::table(std::string_view name) const {
  const auto found = std::ranges::find(tables_, name, &Table::name);
  GPT_ASSERT(found != tables_.end());
  return *found;
}

Grammar Grammar::without(const std::function<bool(const Word&)>& dropped) const {
  Grammar out = *this;
  for (Table& table : out.tables_) {
    std::erase_if(table.words, dropped);
    normalise(table.words, table.weight);
  }
  return out;
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

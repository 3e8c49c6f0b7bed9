#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace gpt {

// A probabilistic grammar without recursion. A rule can bind words to variables and mention these words
// again. The notation has one definition per line:
//
//   @TABLE form=value ... : word word*3 two_words   words with weights; "_" is a space; a line that starts
//                                                   with two spaces continues the table
//   =RULE                                           begins a rule; each line after it is an alternative:
//                                                   weight, space, text
//
// In a text, `\n` is a line break, and braces insert a word or a rule:
//   {RULE}            one alternative of the rule
//   {TABLE}           one word of the table
//   {VAR=TABLE}       one word of the table, which is also stored in VAR
//   {VAR}             the word stored in VAR
// {TABLE}, {VAR=TABLE} and {VAR} accept a suffix that selects a form of the word:
//   .form             the form `form` that the table defines
//   .Form             the same form, with a capital letter
//   .cap              the word with a capital letter
//   .a                the word after its indefinite article
// The first rule is the start rule.
class Grammar {
 public:
  explicit Grammar(std::string_view source);  // asserts that the source is well formed

  // Samples one text from the start rule and appends it to `out`. Returns -log of the probability of the
  // sampled choices.
  double sample(RandomStream& random, std::string& out) const;

  struct Word;
  // The word that each variable holds at the end of a text; null if the text did not set the variable.
  using Values = std::vector<const Word*>;
  double sample(RandomStream& random, std::string& out, Values& values) const;

  struct Score {
    double log_p;         // log of the probability, summed over all derivations; -infinity if there is none
    int64_t derivations;  // number of derivations of the text
  };
  // Returns the probability of the complete text or, if `complete` is false, of all texts that start with it.
  Score score(std::string_view text, bool complete) const;

  struct Expectation {
    double nats = 0;   // entropy of the choices of one text, in nats
    double bytes = 0;  // expected length of one text
  };
  // Returns the exact entropy and the exact expected length of a text, computed in one pass over all choices.
  // No choice depends on the value of a variable, so the lengths follow from the marginal distribution of
  // each variable.
  Expectation expectation() const;

  struct Word {
    std::vector<std::string> forms;  // indexed by form number; empty if the table has no such form
    uint64_t weight = 1;
    double log_p = 0;
  };
  struct Table {
    std::string name;
    std::vector<Word> words;
    uint64_t weight = 0;
  };
  struct Symbol {
    enum class Kind { literal, rule, word, mention } kind = Kind::literal;
    std::string text;   // text of a literal
    int target = -1;    // index of the rule or table
    int variable = -1;  // the variable that stores a word or that a mention reads; -1: not stored
    int form = 0;       // form number of a word or mention
  };
  struct Alternative {
    std::vector<Symbol> symbols;
    uint64_t weight = 1;
    double log_p = 0;
  };
  struct Rule {
    std::string name;
    std::vector<Alternative> alternatives;
    uint64_t weight = 0;
  };
  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<Table>& tables() const { return tables_; }
  int64_t variables() const { return std::ssize(variables_); }
  // Return the index of the variable, or the table, with the given name. The name must exist.
  size_t variable(std::string_view name) const;
  const Table& table(std::string_view name) const;

  // Returns a copy of the grammar without the dropped words. The remaining words of a table keep their
  // relative weights. Every table must keep at least one word.
  Grammar without(const std::function<bool(const Word&)>& dropped) const;

 private:
  std::vector<Rule> rules_;
  std::vector<Table> tables_;
  std::map<std::string, int, std::less<>> variables_;
};

}  // namespace gpt

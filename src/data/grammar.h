#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace gpt {

// A probabilistic grammar without recursion whose rules can bind words to variables and mention them
// again. The notation, one definition per line:
//
//   @TABLE form=value ... : word word*3 two_words   words with weights; "_" is a blank; a line that starts
//                                                   with two blanks continues the table
//   =RULE                                           followed by its alternatives: weight, blank, text
//
// In a text `\n` is a line break and braces are
//   {RULE}            one alternative of the rule
//   {TABLE}           one word of the table
//   {VAR=TABLE}       the same, remembered as VAR
//   {VAR}             the word that VAR holds
// and the last three take a form, `.form`: one of the table's own, `.a` (the word after its indefinite
// article), `.cap` (the word with a capital letter), or a form of the table written with a capital letter
// for the same in the text. The first rule is the start.
class Grammar {
 public:
  explicit Grammar(std::string_view source);  // asserts that the source is well formed

  // Appends one text of the start rule to `out`; returns -log of the probability of the choices made.
  double sample(RandomStream& random, std::string& out) const;

  struct Word;
  // The word that each variable holds at the end of a text; null where it was not used.
  using Values = std::vector<const Word*>;
  double sample(RandomStream& random, std::string& out, Values& values) const;

  struct Score {
    double log_p;         // the log of the sum over all derivations; -infinity when there is none
    int64_t derivations;  // how many ways lead to the text
  };
  // The probability of a complete text or, when not `complete`, that a text starts like this.
  Score score(std::string_view text, bool complete) const;

  struct Expectation {
    double nats = 0;   // entropy of the choices of one text
    double bytes = 0;  // its expected length
  };
  // Exact, by going through all choices once: no choice depends on the value of a variable, so lengths
  // follow from the marginal distribution of each variable.
  Expectation expectation() const;

  struct Word {
    std::vector<std::string> forms;  // by form number; empty where the table has no such form
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
    std::string text;   // literal
    int target = -1;    // rule or table
    int variable = -1;  // word (-1: not remembered), mention
    int form = 0;       // word, mention
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
  // The number of a variable, and a table by its name: both must exist.
  size_t variable(std::string_view name) const;
  const Table& table(std::string_view name) const;

  // The same grammar without some words, the others as likely as before beside each other. Every table must
  // keep one.
  Grammar without(const std::function<bool(const Word&)>& dropped) const;

 private:
  std::vector<Rule> rules_;
  std::vector<Table> tables_;
  std::map<std::string, int, std::less<>> variables_;
};

}  // namespace gpt

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/grammar.h"

namespace gpt {

// Reads the notation of grammar.h into a Grammar. Mistakes are the programmer's: they fail assertions.
class GrammarReader {
 public:
  explicit GrammarReader(Grammar& grammar) : grammar_(grammar) {}
  void read(std::string_view source);

 private:
  using Names = std::map<std::string, int, std::less<>>;

  void read_table_line(std::string_view line);
  void read_words(std::string_view words);
  void read_alternative(std::string_view line);
  Grammar::Symbol read_symbol(std::string_view inside);
  int form_number(std::string_view name);
  std::string make_form(const Grammar::Word& word, std::string_view name) const;
  void fill_forms();
  void set_probabilities();

  Grammar& grammar_;
  Names rules_, tables_, forms_;
  std::vector<std::pair<int, std::string>> table_forms_;  // of the table being read
};

}  // namespace gpt

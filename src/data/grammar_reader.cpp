#include "data/grammar_reader.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace gpt {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

uint64_t read_weight(std::string_view digits) {
  uint64_t weight = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), weight);
  GPT_ASSERT(result.ec == std::errc() && result.ptr == digits.data() + digits.size() && weight >= 1);
  return weight;
}

int find_or_add(std::map<std::string, int, std::less<>>& names, std::string_view name) {
  return names.emplace(name, static_cast<int>(names.size())).first->second;
}

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

}  // namespace

void GrammarReader::read(std::string_view source) {
  find_or_add(forms_, "");
  // Names first, so that a rule may mention what is defined below it.
  const auto lines = split(source, '\n');
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
      grammar_.rules_.push_back({std::string(line.substr(1)), {}, 0});
    } else {
      read_alternative(line);
    }
  }
  fill_forms();
  set_probabilities();
}

void GrammarReader::read_table_line(std::string_view line) {
  const size_t colon = line.find(':');
  GPT_ASSERT(colon != std::string_view::npos);
  table_forms_.clear();
  const auto header = split(line.substr(0, colon), ' ');
  for (size_t i = 1; i < header.size(); ++i) {
    const size_t equals = header[i].find('=');
    GPT_ASSERT(equals != std::string_view::npos);
    table_forms_.emplace_back(form_number(header[i].substr(0, equals)), header[i].substr(equals + 1));
  }
  grammar_.tables_.emplace_back();
  read_words(line.substr(colon + 1));
}

void GrammarReader::read_words(std::string_view words) {
  for (const std::string_view entry : split(words, ' ')) {
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
    grammar_.tables_.back().words.push_back(std::move(word));
  }
}

void GrammarReader::read_alternative(std::string_view line) {
  GPT_ASSERT(!grammar_.rules_.empty());
  const size_t blank = line.find(' ');
  GPT_ASSERT(blank != std::string_view::npos);
  Grammar::Alternative alternative;
  alternative.weight = read_weight(line.substr(0, blank));
  std::string literal;
  const auto flush = [&] {
    if (!literal.empty()) {
      alternative.symbols.push_back({Grammar::Symbol::Kind::literal, std::move(literal), -1, -1, 0});
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
  grammar_.rules_.back().alternatives.push_back(std::move(alternative));
}

Grammar::Symbol GrammarReader::read_symbol(std::string_view inside) {
  using Kind = Grammar::Symbol::Kind;
  Grammar::Symbol symbol;
  const size_t dot = std::min(inside.find('.'), inside.size());
  symbol.form = form_number(inside.substr(std::min(dot + 1, inside.size())));
  std::string_view name = inside.substr(0, dot);
  const size_t equals = name.find('=');
  if (equals != std::string_view::npos) {
    symbol.variable = find_or_add(grammar_.variables_, name.substr(0, equals));
    // A variable of the same name would be hidden by the rule or table.
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
    symbol.variable = find_or_add(grammar_.variables_, name);
  }
  return symbol;
}

int GrammarReader::form_number(std::string_view name) {
  return find_or_add(forms_, name);
}

std::string GrammarReader::make_form(const Grammar::Word& word, std::string_view name) const {
  if (name == "a") {
    const bool vowel = std::string_view("aeiou").find(word.forms[0][0]) != std::string_view::npos;
    return (vowel ? "an " : "a ") + word.forms[0];
  }
  const bool cap = name == "cap";
  if (!cap && (name.empty() || !is_upper(name[0]))) return "";
  std::string base(name);
  base[0] = lower(base[0]);
  const auto form = cap ? forms_.find("") : forms_.find(base);
  if (form == forms_.end()) return "";
  std::string text = word.forms[static_cast<size_t>(form->second)];
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

void GrammarReader::fill_forms() {
  for (Grammar::Table& table : grammar_.tables_) {
    for (Grammar::Word& word : table.words) {
      word.forms.resize(forms_.size());
      // Forms with a capital are made from the others: those first.
      for (const bool capitals : {false, true}) {
        for (const auto& [name, number] : forms_) {
          std::string& form = word.forms[static_cast<size_t>(number)];
          if (form.empty() && capitals == (!name.empty() && is_upper(name[0]))) form = make_form(word, name);
        }
      }
    }
  }
}

void GrammarReader::set_probabilities() {
  const auto normalise = [](auto& choices, uint64_t& total) {
    GPT_ASSERT(!choices.empty());
    for (const auto& choice : choices)
      total += choice.weight;
    for (auto& choice : choices) {
      choice.log_p = std::log(static_cast<double>(choice.weight) / static_cast<double>(total));
    }
  };
  for (Grammar::Table& table : grammar_.tables_)
    normalise(table.words, table.weight);
  for (Grammar::Rule& rule : grammar_.rules_)
    normalise(rule.alternatives, rule.weight);
}

}  // namespace gpt

#include "data/tales_conversations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/ascii.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/rng.h"
#include "data/grammar.h"
#include "data/tales.h"

namespace gpt {
namespace {

constexpr int64_t kMaxConversations = 10'000'000, kMaxInvented = int64_t{1} << 32;

struct QuestionKind {
  std::string name;
  std::vector<std::string> train, test;  // "{hero}" is replaced by the hero's name
};

// The two splits use different wordings for every question.
const std::vector<QuestionKind>& question_kinds() {
  static const std::vector<QuestionKind> kinds = {
      {"name",
       {"What is the name of the hero?", "Tell me the name of the hero.", "Which name does the hero have?",
        "Name the hero.", "The hero has which name?", "What name was the hero given?",
        "Do you know what name the hero has?", "Say the name of the hero.",
        "By what name is the hero known?"},
       {"What was the name of the hero?", "Do you know the name of the hero?"}},
      {"kind",
       {"What kind is {hero}?", "Which kind of animal is {hero}?", "Tell me the kind of {hero}.",
        "{hero} is an animal of which kind?", "What kind of animal was the hero?",
        "Of which kind was the hero?", "Do you know the kind of {hero}?", "Say of which kind the hero is.",
        "What kind of animal is it?"},
       {"What kind of animal was {hero}?", "Do you know of which kind {hero} is?"}},
      {"place",
       {"Where does the story begin?", "Where was {hero}?", "Where did {hero} live?", "Tell me where it was.",
        "{hero} lived where?", "Where was the hero?", "Do you know where the story begins?",
        "Say where {hero} was.", "Do you know where it was?"},
       {"Do you know where {hero} was?", "Where did it begin?"}},
      {"toy",
       {"What toy did {hero} have?", "Which toy was it?", "Tell me the toy of {hero}.",
        "What is the toy in the story?", "{hero} had which toy?", "Name the toy.",
        "Do you know what toy it was?", "Say which toy {hero} had.", "What was the toy?"},
       {"Do you know which toy {hero} had?", "What was the toy of the hero?"}},
      {"color",
       {"What color is it?", "Which color did {hero} like?", "Tell me the color of it.", "Name the color.",
        "It had which color?", "What color was the thing?", "Do you know what color it was?",
        "Say the color.", "What was the color of the thing?"},
       {"Do you know the color of it?", "What was the color?"}},
      {"food",
       {"What food did {hero} have?", "Which food was there?", "Tell me the food of {hero}.",
        "Name the food.", "{hero} had which food?", "What is the food in the story?",
        "Do you know what food it was?", "Say which food {hero} had.", "What was the food?"},
       {"Do you know which food {hero} had?", "What was the food of the hero?"}},
      {"helper",
       {"What is the helper?", "Which animal is the helper?", "Tell me what the helper is.",
        "The helper of {hero} is what?", "Who was the helper, which animal?", "{hero} had which helper?",
        "Do you know which animal the helper is?", "Say what the helper was.",
        "What was the helper of {hero}?"},
       {"Do you know what the helper of {hero} was?", "What animal was the helper?"}},
      {"friend",
       {"Which friend came?", "Who is the friend?", "Tell me who the friend is.",
        "The friend of {hero} is who?", "Who was the friend of {hero}?", "{hero} met which friend?",
        "Do you know who the friend is?", "Say who the friend was.", "Who was it, the friend?"},
       {"Do you know who the friend of {hero} was?", "Who was the friend?"}},
      {"pair",
       {"Who were the two?", "Tell me both, the two of them.", "Which two met?", "Name the two.",
        "The two were who?", "Who are the two in the story?", "Do you know the two?", "Say who the two were.",
        "Who were the two of them?"},
       {"Do you know who the two were?", "Which two were there?"}},
  };
  return kinds;
}

constexpr std::array<std::string_view, 10> kAskedTables = {"girls",   "boys",   "women",  "men",  "animals",
                                                           "helpers", "places", "colors", "toys", "foods"};

// Replaces each run of letters in the text with the result of fn(word).
template <class Fn>
std::string replace_words(const std::string& text, Fn fn) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_ascii_letter(text[end]))
      ++end;
    out += end > i ? fn(text.substr(i, end - i)) : std::string(1, text[i]);
    i = std::max(end, i + 1);
  }
  return out;
}

using Words = std::set<std::string>;

// The word "mine" is ambiguous: it is the name of a place, but it also occurs in "the pears are mine". The
// grammar of the conversations therefore does not contain the place "mine".
const Grammar& conversation_grammar() {
  static const Grammar grammar =
      tales_grammar().without([](const Grammar::Word& word) { return word.forms.front() == "mine"; });
  return grammar;
}

// Returns all words of the tales that questions can ask for. The value is true if the word is a plural.
const std::map<std::string, bool>& asked_words() {
  static const std::map<std::string, bool> all = [] {
    std::map<std::string, bool> words;
    for (const std::string_view name : kAskedTables) {
      for (const Grammar::Word& word : conversation_grammar().table(name).words)
        words[word.forms.front()] = name == "foods";
    }
    return words;
  }();
  return all;
}

// Returns all words of the tales and the questions.
const Words& known_words() {
  static const Words all = [] {
    Words words;
    const auto add = [&](const std::string& text) {
      replace_words(text, [&](const std::string& word) {
        words.insert(word);
        return "";
      });
    };
    for (const QuestionKind& kind : question_kinds()) {
      for (const auto* wordings : {&kind.train, &kind.test})
        add(fmt::format("{}", fmt::join(*wordings, " ")));
    }
    for (const Grammar::Table& table : tales_grammar().tables()) {
      for (const Grammar::Word& word : table.words) {
        for (const std::string& form : word.forms)
          add(form);
      }
    }
    for (const Grammar::Rule& rule : tales_grammar().rules()) {
      for (const Grammar::Alternative& alternative : rule.alternatives) {
        for (const Grammar::Symbol& symbol : alternative.symbols)
          add(symbol.text);
      }
    }
    return words;
  }();
  return all;
}

template <size_t N>
std::string_view one_of(const std::array<std::string_view, N>& all, RandomStream& random) {
  return all[random.below(N)];
}

// Invents a word that no tale contains, to replace `word`. The invented word has a capital letter if `word`
// has one, and begins with a vowel if `word` does.
std::string invented(const std::string& word, bool plural, RandomStream& random) {
  static constexpr std::array<std::string_view, 46> kOnsets = {
      "b",  "d",  "f",  "g",  "h",  "j",  "k",  "l",  "m",  "n",  "p",  "r",  "s",  "t",  "v",  "w",
      "y",  "z",  "bl", "br", "ch", "cl", "cr", "dr", "fl", "fr", "gl", "gr", "kn", "pl", "pr", "qu",
      "sc", "sh", "sk", "sl", "sm", "sn", "sp", "st", "sw", "th", "tr", "tw", "wh", "c"};
  static constexpr std::array<std::string_view, 16> kVowels = {"a",  "e",  "i",  "o",  "u",  "ee", "oo", "ai",
                                                               "ea", "oa", "ou", "ie", "ow", "aw", "ay", "y"};
  static constexpr std::array<std::string_view, 32> kCodas = {
      "",  "",  "",  "",  "",  "",   "n",  "l",  "r",  "t",  "m",  "d",   "g",  "b",  "p",  "s",
      "x", "k", "w", "v", "f", "ck", "nd", "ll", "rn", "st", "sh", "tch", "ld", "ng", "le", "er"};
  const bool capital = word[0] < 'a',
             vowel = std::string_view("aeiouAEIOU").find(word[0]) != std::string::npos;
  std::string text;
  do {
    text.clear();
    const uint64_t syllables = 1 + random.below(2);
    for (uint64_t i = 0; i < syllables; ++i) {
      if (i > 0 || !vowel) text += one_of(kOnsets, random);
      text += one_of(kVowels, random);
      text += one_of(kCodas, random);
    }
    if (plural) text += 's';
    if (capital) text[0] = static_cast<char>(text[0] - 'a' + 'A');
  } while (known_words().contains(text) || text.size() < 2);
  return text;
}

// Answers questions about one story.
class Facts {
 public:
  Facts(const Grammar& grammar, const Grammar::Values& values) : grammar_(grammar), values_(values) {}

  std::string answer(const std::string& kind) const {
    if (kind == "name") return fmt::format("The hero is {}.", word("hero"));
    if (kind == "friend") return fmt::format("The friend is {}.", word("friend"));
    if (kind == "pair") return fmt::format("The two are {} and {}.", word("hero"), word("friend"));
    if (kind == "color") return fmt::format("The {} {}.", word("color"), word("toy"));
    return fmt::format("The {}.", word(kind));
  }
  // Returns true if the story can have a question of this kind. There is no question about the kind of a hero
  // who is a girl or a boy, because the words "girl" and "boy" occur in both splits.
  bool has(const std::string& kind) const {
    return kind != "kind" || (word("kind") != "girl" && word("kind") != "boy");
  }
  std::string word(std::string_view variable) const {
    const Grammar::Word* const value = values_[grammar_.variable(variable)];
    GPT_ASSERT(value != nullptr);
    return value->forms.front();
  }

 private:
  const Grammar& grammar_;
  const Grammar::Values& values_;
};

std::string worded(const QuestionKind& kind, TalesSplit split, const std::string& hero,
                   RandomStream& random) {
  const std::vector<std::string>& wordings = split == TalesSplit::train ? kind.train : kind.test;
  std::string question = wordings[random.below(wordings.size())];
  constexpr std::string_view kHero = "{hero}";
  if (const size_t at = question.find(kHero); at != std::string::npos)
    question.replace(at, kHero.size(), hero);
  return question;
}

std::vector<const QuestionKind*> chosen_kinds(const std::vector<std::string>& names) {
  std::vector<const QuestionKind*> out;
  for (const QuestionKind& kind : question_kinds()) {
    const bool named = std::ranges::find(names, kind.name) != names.end();
    if (names.empty() ? kind.name != "pair" : named) out.push_back(&kind);
  }
  return out;
}

// The first three lines of a story name everything that questions ask for.
constexpr int64_t kLines = 3;

size_t end_of_line(const std::string& text, int64_t line) {
  size_t end = text.find('\n');
  while (--line > 0)
    end = text.find('\n', end + 1);
  GPT_ASSERT(end != std::string::npos);
  return end;
}

// Replaces each word that questions can ask for with an invented name. All occurrences of a word get the same
// name.
class Renamer {
 public:
  explicit Renamer(RandomStream& random) : random_(random) {}
  std::string operator()(const std::string& text) {
    return replace_words(text, [&](const std::string& word) {
      const auto asked = asked_words().find(word);
      if (asked == asked_words().end()) return word;
      std::string& name = names_[word];
      if (name.empty()) {
        do
          name = invented(word, asked->second, random_);
        while (!used_.insert(name).second);
      }
      return name;
    });
  }

 private:
  RandomStream& random_;
  std::map<std::string, std::string> names_;
  Words used_;  // no two words get the same name
};

void rename(TalesConversation& c, RandomStream& random) {
  Renamer renamed(random);
  c.story = renamed(c.story);
  for (TalesTurn& turn : c.turns) {
    turn.question = renamed(turn.question);
    turn.answer = renamed(turn.answer);
  }
}

TalesConversation conversation(int64_t number, const TalesConversationOptions& options,
                               std::vector<const QuestionKind*> kinds) {
  const bool test = options.split == TalesSplit::test;
  const Grammar& grammar = conversation_grammar();
  TalesConversation c{.number = number, .story = {}, .turns = {}};
  Grammar::Values values;
  RandomStream story(options.seed, RandomSite::corpus, test ? 4 : 2, static_cast<uint64_t>(number));
  grammar.sample(story, c.story, values);
  c.story.resize(end_of_line(c.story, kLines));
  const Facts facts(grammar, values);
  RandomStream random(options.seed, RandomSite::corpus, test ? 5 : 3, static_cast<uint64_t>(number));
  while (!kinds.empty() && std::ssize(c.turns) < options.turns) {
    const auto at = kinds.begin() + static_cast<std::ptrdiff_t>(random.below(kinds.size()));
    if (facts.has((*at)->name))
      c.turns.push_back(
          {(*at)->name, worded(**at, options.split, facts.word("hero"), random), facts.answer((*at)->name)});
    kinds.erase(at);
  }
  if (!test) rename(c, random);
  return c;
}

nlohmann::ordered_json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

std::string first_message(const TalesConversation& c, const TalesTurn& turn) {
  return c.story + "\n\n" + turn.question;
}

}  // namespace

const std::vector<std::string>& tales_question_kinds() {
  static const std::vector<std::string> names =
      transformed(question_kinds(), [](const QuestionKind& kind) { return kind.name; });
  return names;
}

std::vector<TalesConversation> tales_conversations(int64_t count, const TalesConversationOptions& options) {
  if (count < 1 || count > kMaxConversations)
    fail_usage("conversations: expected 1 to {}, found {}", kMaxConversations, count);
  check_story_number(options.first);
  const auto most = std::ssize(tales_question_kinds());
  if (options.turns < 1 || options.turns > most)
    fail_usage("conversations: expected 1 to {} questions per story, found {}", most, options.turns);
  for (const std::string& kind : options.kinds) {
    if (std::ranges::find(tales_question_kinds(), kind) == tales_question_kinds().end())
      fail_usage("questions about {}: expected one of {}", printable(kind),
                 fmt::join(tales_question_kinds(), ", "));
  }
  const std::vector<const QuestionKind*> kinds = chosen_kinds(options.kinds);
  std::vector<TalesConversation> out;
  for (int64_t number = options.first; std::ssize(out) < count; ++number) {
    TalesConversation c = conversation(number, options, kinds);
    if (!c.turns.empty()) out.push_back(std::move(c));
  }
  return out;
}

std::string invented_tales(int64_t bytes, uint64_t seed) {
  if (bytes < 1 || bytes > kMaxInvented)
    fail_usage("tales with invented words: expected 1 to {} bytes, found {}", kMaxInvented, bytes);
  std::string out;
  for (uint64_t number = 0; std::ssize(out) < bytes; ++number) {
    RandomStream story(seed, RandomSite::corpus, 6, number), random(seed, RandomSite::corpus, 7, number);
    std::string text;
    conversation_grammar().sample(story, text);
    out += Renamer(random)(text);
  }
  out.resize(static_cast<size_t>(bytes));
  return out;
}

std::string chat_lines(const std::vector<TalesConversation>& conversations) {
  std::string out;
  for (const TalesConversation& c : conversations) {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    for (const TalesTurn& turn : c.turns) {
      messages.push_back(message("user", messages.empty() ? first_message(c, turn) : turn.question));
      messages.push_back(message("assistant", turn.answer));
    }
    out += nlohmann::ordered_json{{"messages", messages}}.dump() + "\n";
  }
  return out;
}

std::string grpo_lines(const std::vector<TalesConversation>& conversations) {
  std::string out;
  for (const TalesConversation& c : conversations) {
    for (const TalesTurn& turn : c.turns) {
      const nlohmann::ordered_json line = {
          {"messages", nlohmann::ordered_json::array({message("user", first_message(c, turn))})},
          {"answer", turn.answer},
          {"kind", turn.kind}};
      out += line.dump() + "\n";
    }
  }
  return out;
}

}  // namespace gpt

#include "data/tales_conversations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/rng.h"
#include "data/grammar.h"
#include "data/tales.h"

namespace gpt {
namespace {

constexpr int64_t kMaxConversations = 10'000'000;

struct QuestionKind {
  std::string name;
  std::vector<std::string> train, test;  // "{hero}" is the hero's name
};

// Each kind's wordings have a word in common, in both splits, that no other kind's have.
const std::vector<QuestionKind>& question_kinds() {
  static const std::vector<QuestionKind> kinds = {
      {"name",
       {"What is the name of the hero?", "Tell me the name of the hero.", "Which name does the hero have?",
        "Name the hero.", "The hero has which name?", "What name was the hero given?"},
       {"The name of the hero was what?", "Do you know the name of the hero?"}},
      {"kind",
       {"What kind is {hero}?", "Which kind of animal is {hero}?", "Tell me the kind of {hero}.",
        "{hero} is an animal of which kind?", "What kind of animal was the hero?",
        "Of which kind was the hero?"},
       {"What kind of animal was {hero}?", "Do you know of which kind {hero} is?"}},
      {"place",
       {"Where does the story begin?", "Where was {hero}?", "Where did {hero} live?", "Tell me where it was.",
        "{hero} lived where?", "Where was the hero?"},
       {"Do you know where {hero} was?", "Where did it begin?"}},
      {"toy",
       {"What toy did {hero} have?", "Which toy was it?", "Tell me the toy of {hero}.",
        "What is the toy in the story?", "{hero} had which toy?", "Name the toy."},
       {"Do you know which toy {hero} had?", "What was the toy of the hero?"}},
      {"color",
       {"What color is it?", "Which color did {hero} like?", "Tell me the color of it.", "Name the color.",
        "It had which color?", "What color was the thing?"},
       {"Do you know the color of it?", "What was the color?"}},
      {"food",
       {"What food did {hero} have?", "Which food was there?", "Tell me the food of {hero}.",
        "Name the food.", "{hero} had which food?", "What is the food in the story?"},
       {"Do you know which food {hero} had?", "What was the food of the hero?"}},
      {"helper",
       {"What is the helper?", "Which animal is the helper?", "Tell me what the helper is.",
        "The helper of {hero} is what?", "Who was the helper, which animal?", "{hero} had which helper?"},
       {"Do you know what the helper of {hero} was?", "What animal was the helper?"}},
      {"friend",
       {"Which friend came?", "Who is the friend?", "Tell me who the friend is.",
        "The friend of {hero} is who?", "Who was the friend of {hero}?", "{hero} met which friend?"},
       {"Do you know who the friend of {hero} was?", "Who was the friend?"}},
      {"pair",
       {"Who were the two?", "Tell me both, the two of them.", "Which two met?", "Name the two.",
        "The two were who?", "Who are the two in the story?"},
       {"Do you know who the two were?", "Which two were there?"}},
  };
  return kinds;
}

constexpr std::array kAskedTables = {"girls",   "boys",   "women",  "men",  "animals",
                                     "helpers", "places", "colors", "toys", "foods"};

constexpr std::string_view kInNeither = "mine";

// Every fourth word that is asked for belongs to the test split. "mine" belongs to neither: "the pears are
// mine" is said in both.
std::set<std::string> words_of(TalesSplit split) {
  constexpr size_t kEvery = 4;
  std::set<std::string> words;
  for (const char* name : kAskedTables) {
    const Grammar::Table& table = tales_grammar().table(name);
    for (size_t i = 0; i < table.words.size(); ++i) {
      const std::string& word = table.words[i].forms.front();
      if (word != kInNeither && (i % kEvery == kEvery - 1) == (split == TalesSplit::test)) words.insert(word);
    }
  }
  return words;
}

Grammar grammar_of(TalesSplit split) {
  const auto other = words_of(split == TalesSplit::train ? TalesSplit::test : TalesSplit::train);
  return tales_grammar().without([&](const Grammar::Word& word) {
    return word.forms.front() == kInNeither || other.contains(word.forms.front());
  });
}

const Grammar& split_grammar(TalesSplit split) {
  static const Grammar train = grammar_of(TalesSplit::train), test = grammar_of(TalesSplit::test);
  return split == TalesSplit::train ? train : test;
}

// What a story says of a kind of question.
class Facts {
 public:
  Facts(const Grammar& grammar, const Grammar::Values& values) : grammar_(grammar), values_(values) {}

  std::string answer(const std::string& kind) const {
    if (kind == "pair") return fmt::format("They are {} and {}.", word("hero"), word("friend"));
    return fmt::format("It is {}.", word(kind == "name" ? "hero" : kind));
  }
  // A girl or a boy is of no kind, and belongs to both splits.
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

TalesConversation conversation(int64_t number, const TalesConversationOptions& options,
                               std::vector<const QuestionKind*> kinds) {
  const bool test = options.split == TalesSplit::test;
  const Grammar& grammar = split_grammar(options.split);
  TalesConversation c{.number = number, .story = {}, .turns = {}};
  Grammar::Values values;
  RandomStream story(options.seed, RandomSite::corpus, test ? 4 : 2, static_cast<uint64_t>(number));
  grammar.sample(story, c.story, values);
  while (c.story.ends_with('\n'))
    c.story.pop_back();
  const Facts facts(grammar, values);
  RandomStream random(options.seed, RandomSite::corpus, test ? 5 : 3, static_cast<uint64_t>(number));
  while (!kinds.empty() && std::ssize(c.turns) < options.turns) {
    const auto at = kinds.begin() + static_cast<std::ptrdiff_t>(random.below(kinds.size()));
    if (facts.has((*at)->name))
      c.turns.push_back(
          {(*at)->name, worded(**at, options.split, facts.word("hero"), random), facts.answer((*at)->name)});
    kinds.erase(at);
  }
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
  if (options.first < 0) fail_usage("tales: expected a story number of at least 0, found {}", options.first);
  const auto most = std::ssize(tales_question_kinds());
  if (options.turns < 1 || options.turns > most)
    fail_usage("conversations: expected 1 to {} questions on a story, found {}", most, options.turns);
  for (const std::string& kind : options.kinds) {
    if (std::ranges::find(tales_question_kinds(), kind) == tales_question_kinds().end())
      fail_usage("questions about {}: expected {}", printable(kind), fmt::join(tales_question_kinds(), ", "));
  }
  const std::vector<const QuestionKind*> kinds = chosen_kinds(options.kinds);
  std::vector<TalesConversation> out;
  for (int64_t number = options.first; std::ssize(out) < count; ++number) {
    TalesConversation c = conversation(number, options, kinds);
    if (!c.turns.empty()) out.push_back(std::move(c));
  }
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

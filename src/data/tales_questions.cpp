#include "data/tales_questions.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/ascii.h"
#include "base/error.h"
#include "base/ranges.h"
#include "base/rng.h"
#include "data/tales.h"

namespace gpt {
namespace {

constexpr int64_t kMaxQuestions = int64_t{1} << 20;
constexpr size_t kChoices = 4;
constexpr std::array kKinds = {"name", "pronoun", "toy"};

// Returns all words of the grammar table that contains `word`.
std::vector<std::string> table_with(const std::string& word) {
  for (const Grammar::Table& table : tales_grammar().tables()) {
    std::vector<std::string> words = transformed(table.words, [](const auto& w) { return w.forms.front(); });
    if (std::find(words.begin(), words.end(), word) != words.end()) return words;
  }
  GPT_ASSERT(false);
  return {};
}

// Returns the groups of words that a kind of question offers as choices. In each group, the story determines
// the correct word.
const std::vector<std::vector<std::string>>& alternatives(const std::string& kind) {
  static const std::vector<std::vector<std::string>> names = {table_with("Lily"), table_with("Tom")};
  static const std::vector<std::vector<std::string>> pronouns = {
      {"he", "she"}, {"his", "her"}, {"He", "She"}, {"His", "Her"}};
  static const std::vector<std::vector<std::string>> toys = {table_with("kite")};
  return kind == "name" ? names : kind == "pronoun" ? pronouns : toys;
}

struct Place {
  size_t at;  // offset of the word in the story
  const std::vector<std::string>* words;
  size_t word;
};

// Returns the places after the first sentence where a story mentions one of the words.
std::vector<Place> places_of(const std::string& story, const std::string& kind) {
  std::vector<Place> places;
  for (const std::vector<std::string>& words : alternatives(kind)) {
    for (size_t w = 0; w < words.size(); ++w) {
      for (size_t at = story.find(' ' + words[w], story.find('.')); at != std::string::npos;
           at = story.find(' ' + words[w], at + 1)) {
        const size_t end = at + 1 + words[w].size();
        if (end < story.size() && !is_ascii_letter(story[end])) places.push_back({at + 1, &words, w});
      }
    }
  }
  return places;
}

bool possible(const std::string& text) {
  return std::isfinite(tales_grammar().score(text, false).log_p);
}

// Fills `q` with the story up to this place and with the choices. Samples up to three wrong words, which the
// grammar does not allow at this place, and the position of the correct word among them. Returns false if the
// grammar does not exclude enough words of the group.
bool ask(const std::string& story, const Place& place, RandomStream& random, TalesQuestion& q) {
  q.story = story.substr(0, place.at - 1);
  std::vector<std::string> others = *place.words;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(place.word));
  const size_t wanted = std::min(kChoices, place.words->size()) - 1;
  q.choices.clear();
  while (q.choices.size() < wanted && !others.empty()) {
    const size_t i = random.below(others.size());
    // Append the character after the word to the text. Otherwise, a word that is a prefix of an allowed word
    // would also count as possible.
    if (!possible(q.story + ' ' + others[i] + story[place.at + (*place.words)[place.word].size()]))
      q.choices.push_back(others[i]);
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (q.choices.size() < wanted) return false;
  q.answer = static_cast<int64_t>(random.below(wanted + 1));
  q.choices.insert(q.choices.begin() + q.answer, (*place.words)[place.word]);
  return true;
}

}  // namespace

std::vector<TalesQuestion> tales_questions(int64_t count, uint64_t seed, int64_t first_story) {
  if (count < 1 || count > kMaxQuestions)
    fail_usage("questions: expected 1 to {}, found {}", kMaxQuestions, count);
  check_story_number(first_story);
  std::vector<TalesQuestion> questions;
  for (int64_t number = first_story; std::ssize(questions) < count; ++number) {
    std::string story;
    RandomStream stories(seed, RandomSite::corpus, 0, static_cast<uint64_t>(number));
    tales_grammar().sample(stories, story);
    RandomStream random(seed, RandomSite::eval, 1, static_cast<uint64_t>(number));
    const std::string kind = kKinds[questions.size() % kKinds.size()];
    const std::vector<Place> places = places_of(story, kind);
    if (places.empty()) continue;
    TalesQuestion q{.kind = kind, .story = {}, .choices = {}, .number = number};
    if (ask(story, places[random.below(places.size())], random, q)) questions.push_back(std::move(q));
  }
  return questions;
}

}  // namespace gpt

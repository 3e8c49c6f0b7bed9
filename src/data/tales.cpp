#include "data/tales.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/rng.h"

namespace gpt {
namespace {

// The text is generated in memory, so a larger size is most likely a typing error.
constexpr int64_t kMaxBytes = int64_t{1} << 34;
constexpr int64_t kMaxStory = int64_t{1} << 60;
constexpr int64_t kMaxLabelled = 10'000'000;

// The grammar must be unambiguous, which the tests verify. Therefore, no word of a table is a prefix of
// another word in the table, and no alternative of a rule is a prefix of another alternative. Words that a
// sentence uses twice come from different tables.
constexpr std::string_view kGrammar =
#include "data/tales.grammar"
    ;

}  // namespace

TalesText generate_tales(int64_t bytes, uint64_t seed, int64_t first_story) {
  if (bytes < 1 || bytes > kMaxBytes) {
    fail_usage("tales: expected 1 to {} bytes, found {}; generate larger texts in parts", kMaxBytes, bytes);
  }
  check_story_number(first_story);
  const Grammar& grammar = tales_grammar();
  const auto wanted = static_cast<size_t>(bytes);
  TalesText tales;
  tales.next_story = first_story;
  size_t last = 0;
  double last_nats = 0;
  while (tales.text.size() < wanted) {
    last = tales.text.size();
    RandomStream random(seed, RandomSite::corpus, 0, static_cast<uint64_t>(tales.next_story++));
    last_nats = grammar.sample(random, tales.text);
    tales.nats += last_nats;
  }
  if (tales.text.size() > wanted) {
    tales.text.resize(wanted);
    // The last story was cut. Count only the -log probability of the part that remains.
    tales.nats -= last_nats + grammar.score(std::string_view(tales.text).substr(last), false).log_p;
  }
  return tales;
}

namespace {

// Generates a story into `text` and returns its lines.
std::vector<std::string_view> tale(uint64_t seed, int64_t number, std::string& text) {
  text.clear();
  RandomStream random(seed, RandomSite::corpus, 0, static_cast<uint64_t>(number));
  tales_grammar().sample(random, text);
  while (text.ends_with('\n'))
    text.pop_back();
  return split(text, '\n');
}

}  // namespace

std::string labelled_tales(const std::string& task, int64_t examples, uint64_t seed, int64_t first) {
  const bool choose = task == "choose";
  if (!choose && task != "classify")
    fail_usage("labelled tales: expected classify or choose, found {}", printable(task));
  if (examples < 1 || examples > kMaxLabelled)
    fail_usage("labelled tales: expected 1 to {} examples, found {}", kMaxLabelled, examples);
  check_story_number(first);
  std::string out, own, other;
  for (int64_t n = first; n < first + examples; ++n) {
    const std::vector<std::string_view> lines = tale(seed, 2 * n, own);
    const std::string_view last = lines.back(), foreign = tale(seed, 2 * n + 1, other).back();
    RandomStream random(seed, RandomSite::corpus, 1, static_cast<uint64_t>(n));
    const auto coin = static_cast<int>(random.below(2));
    nlohmann::json example;
    if (choose) {
      example["context"] = own.substr(0, own.size() - last.size());
      example["choices"] = {coin == 0 ? last : foreign, coin == 0 ? foreign : last};
      example["label"] = coin;
    } else {
      example["text"] = fmt::format("{}\n{}\n{}", lines[0], lines[1], coin == 0 ? last : foreign);
      example["label"] = coin == 0 ? "whole" : "mixed";
    }
    out += example.dump() + "\n";
  }
  return out;
}

void check_story_number(int64_t number) {
  if (number < 0 || number > kMaxStory)
    fail_usage("tales: expected a story number from 0 to {}, found {}", kMaxStory, number);
}

double tales_entropy_per_byte() {
  const Grammar::Expectation story = tales_grammar().expectation();
  return story.nats / story.bytes;
}

const Grammar& tales_grammar() {
  static const Grammar grammar(kGrammar);
  return grammar;
}

}  // namespace gpt

#include "data/tales.h"

#include "base/error.h"
#include "base/rng.h"

namespace gpt {
namespace {

// The text is made in memory; more than this is surely a slip of the finger.
constexpr int64_t kMaxBytes = int64_t{1} << 34;

// What keeps the grammar unambiguous (and the tests prove): within a table no word is the beginning of
// another, and the alternatives of a rule differ before either ends. Words that one sentence uses twice
// come from different tables.
constexpr std::string_view kGrammar =
#include "data/tales.grammar"
    ;

}  // namespace

TalesText generate_tales(int64_t bytes, uint64_t seed, int64_t first_story) {
  if (bytes < 1 || bytes > kMaxBytes) {
    fail_usage("tales: expected 1 to {} bytes, found {}; make larger texts in parts", kMaxBytes, bytes);
  }
  if (first_story < 0) fail_usage("tales: expected a story number of at least 0, found {}", first_story);
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
    // Of the story that was cut only the choices before the cut count.
    tales.nats -= last_nats + grammar.score(std::string_view(tales.text).substr(last), false).log_p;
  }
  return tales;
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

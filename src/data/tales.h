#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/grammar.h"

namespace gpt {

// The built-in corpus: simple ASCII stories that a probabilistic grammar generates, each ending with an empty
// line. The grammar is unambiguous, so -log of the probability of a text is the sum over the choices that
// generated it. No model, however large, can have a lower loss on average. A model whose context is shorter
// than a story cannot even reach this loss.
struct TalesText {
  std::string text;        // exactly the requested number of bytes; the last story may be cut
  double nats = 0;         // -log of the probability that a text starts with `text`
  int64_t next_story = 0;  // number of the first unused story
};

// Generates stories first_story, first_story + 1, ... of a seed. Each story depends only on the seed and its
// number. To get unseen stories of the same grammar for validation, pass `next_story` of the training text as
// `first_story`. Throws invalid_argument unless 1 <= bytes <= 2^34 and 0 <= first_story <= 2^60.
TalesText generate_tales(int64_t bytes, uint64_t seed, int64_t first_story = 0);

// Generates labelled stories as JSON Lines. The label follows from the content of the story:
//   classify: The text has three lines: the first two lines of a story and a last line. With the label
//             "whole", the last line is from the same story. With the label "mixed", the last line is from
//             another story. Both labels have probability 1/2.
//   choose:   The context is a story without its last line. The choices are the last line of this story and
//             the last line of another story.
// Each example depends only on the seed and its number. Throws invalid_argument for an unknown task or fewer
// than one example.
std::string labelled_tales(const std::string& task, int64_t examples, uint64_t seed, int64_t first = 0);

// Returns the entropy per byte of an endless text, in nats: expected nats per story divided by expected bytes
// per story. Both expected values are computed exactly from the grammar.
double tales_entropy_per_byte();

// Throws invalid_argument unless 0 <= number <= 2^60. Because of the limit, the numbers of the following
// stories cannot overflow.
void check_story_number(int64_t number);

// Returns the grammar of the stories. The grammar is parsed once.
const Grammar& tales_grammar();

}  // namespace gpt

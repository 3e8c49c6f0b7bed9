#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/grammar.h"

namespace gpt {

// The built-in corpus: simple stories from a probabilistic grammar, ASCII, each ending with an empty
// line. The grammar is unambiguous, so -log of the probability of a text is the sum over the choices
// that made it: the loss that no model can beat on average, however large (a model that sees only a
// window of a story cannot even reach it).
struct TalesText {
  std::string text;        // exactly the requested bytes; the last story may be cut
  double nats = 0;         // -log of the probability that a text starts like this
  int64_t next_story = 0;  // the first story that was not used
};

// Stories first_story, first_story + 1, ... of a seed. Each depends on (seed, its number) alone: give
// `next_story` of the training text as first_story of the validation text to get stories of the same
// grammar that were not seen. Throws invalid_argument unless 1 <= bytes <= 2^34 and
// 0 <= first_story <= 2^60.
TalesText generate_tales(int64_t bytes, uint64_t seed, int64_t first_story = 0);

// Labelled stories, JSON lines, for a task whose answers follow from what a story says:
//   classify: the opening, the next line and the last line of a story, labelled "whole"; or with the last
//             line of another story, labelled "mixed"; as many of both, on average
//   choose:   the story without its last line as context, its own last line and that of another story as
//             choices
// Each depends on (seed, its number) alone. Throws invalid_argument for another task or fewer than one
// example.
std::string labelled_tales(const std::string& task, int64_t examples, uint64_t seed, int64_t first = 0);

// The entropy of an endless text: expected nats per story divided by expected bytes per story, both
// exact from the grammar.
double tales_entropy_per_byte();

// Stories are numbered from 0 to 2^60, so that none that follows is beyond what a number can be. Throws
// invalid_argument.
void check_story_number(int64_t number);

// The grammar behind tales.h, read once.
const Grammar& tales_grammar();

}  // namespace gpt

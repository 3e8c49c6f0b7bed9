#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// The beginning of a tale, and several choices for its next word. The grammar allows only one of the choices.
// All other choices have probability 0.
struct TalesQuestion {
  std::string kind;   // "name", "pronoun" or "toy": the fact that must be remembered from the story
  std::string story;  // up to the space before the word
  std::vector<std::string> choices;
  int64_t answer = 0;  // index of the right choice
  int64_t number = 0;  // number of the story
};

// Generates questions about stories first_story, first_story + 1, ... of a seed: at most one question per
// story, with the kinds in rotation. A question depends only on the seed, its story and its kind. Throws
// invalid_argument unless 1 <= count <= 2^20.
std::vector<TalesQuestion> tales_questions(int64_t count, uint64_t seed, int64_t first_story = 0);

}  // namespace gpt

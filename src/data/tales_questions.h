#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// A story of the tales that breaks off in front of a word, with words that could follow. By the grammar only
// one of them can: the others have probability 0.
struct TalesQuestion {
  std::string kind;   // "name", "pronoun" or "toy": what the story must be remembered for
  std::string story;  // up to the blank in front of the word
  std::vector<std::string> choices;
  int64_t answer = 0;  // number of the choice
  int64_t number = 0;  // of the story
};

// Questions on stories first_story, first_story + 1, ... of a seed, at most one of each kind a story, the
// kinds in turns. Each depends on the seed and its story alone. Throws invalid_argument unless 1 <= count <=
// 2^20.
std::vector<TalesQuestion> tales_questions(int64_t count, uint64_t seed, int64_t first_story = 0);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// A question on a story, and its answer: "The hero is Lily.", "The golden kite.".
struct TalesTurn {
  std::string kind, question, answer;
};

// The first three lines of a story, and what is asked about them one after the other. Every answer follows
// from these lines alone.
struct TalesConversation {
  int64_t number = 0;
  std::string story;
  std::vector<TalesTurn> turns;
};

// Two worlds that share no word that is asked for and no question. In `train` all that is asked for, names,
// animals, places, colors, toys and foods, has an invented name, another one in every story; in `test` they
// are those of the tales, and the questions are worded differently. So what is learnt is to read the answer
// in the story.
enum class TalesSplit { train, test };

// What can be asked: "name" and "kind" (of the hero), "place", "toy", "color" (of the toy), "food", "helper"
// (which animal) and "friend" (its name); "pair", both names, only where it is asked for.
const std::vector<std::string>& tales_question_kinds();

struct TalesConversationOptions {
  TalesSplit split = TalesSplit::train;
  std::vector<std::string> kinds;  // {}: all but "pair"
  int64_t turns = 4;               // most questions on a story, of different kinds
  uint64_t seed = 1;
  int64_t first = 0;
};

// Conversations options.first, first + 1, ...; each depends on the options and its number alone. Throws
// invalid_argument for an unknown kind, turns or first out of range, or unless 1 <= count <= 10,000,000.
std::vector<TalesConversation> tales_conversations(int64_t count, const TalesConversationOptions& options);

// Stories in which all that could be asked for has an invented name, as in the train split: a text that can
// only be gone on with by looking back. Throws invalid_argument unless 1 <= bytes <= 2^32.
std::string invented_tales(int64_t bytes, uint64_t seed);

// Conversations as JSON lines for gpt finetune. chat: a conversation a line, the story in front of the first
// question; grpo: a line for each question, "messages" with the story and the question, and "answer".
std::string chat_lines(const std::vector<TalesConversation>& conversations);
std::string grpo_lines(const std::vector<TalesConversation>& conversations);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// A question on a story, and its answer: "It is golden.", "They are Lily and Hugo.".
struct TalesTurn {
  std::string kind, question, answer;
};

// A story, and what is asked about it one after the other. Every answer follows from the story alone.
struct TalesConversation {
  int64_t number = 0;
  std::string story;
  std::vector<TalesTurn> turns;
};

// Two worlds that share no word that is asked for and no question: names, animals, places, colors, toys and
// foods of one occur nowhere in the other, and neither do its wordings. What was learnt from `train` and
// holds in `test` is how to answer, not what.
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
// UsageError for an unknown kind, turns or first out of range, or unless 1 <= count <= 10,000,000.
std::vector<TalesConversation> tales_conversations(int64_t count, const TalesConversationOptions& options);

// The same as JSON lines for gpt finetune. chat: a conversation a line, the story in front of the first
// question; grpo: a line for each question, "messages" with the story and the question, and "answer".
std::string chat_lines(const std::vector<TalesConversation>& conversations);
std::string grpo_lines(const std::vector<TalesConversation>& conversations);

}  // namespace gpt

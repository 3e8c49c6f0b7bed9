#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// A question about a story with its answer, such as "The hero is Lily." or "The golden kite.".
struct TalesTurn {
  std::string kind, question, answer;
};

// The first three lines of a story, and a series of questions about them. Every answer follows from these
// lines alone.
struct TalesConversation {
  int64_t number = 0;
  std::string story;
  std::vector<TalesTurn> turns;
};

// The two splits share no question and no word that questions ask for. In `train`, everything that questions
// ask for (names, animals, places, colors, toys and foods) has an invented name, which is different in every
// story. In `test`, these words are the original words of the tales, and the questions are worded
// differently. A model therefore has to learn to find the answer in the story.
enum class TalesSplit { train, test };

// Returns the kinds of questions: "name" and "kind" (of the hero), "place", "toy", "color" (of the toy),
// "food", "helper" (which animal), "friend" (its name) and "pair" (both names). The kind "pair" is used only
// on request.
const std::vector<std::string>& tales_question_kinds();

struct TalesConversationOptions {
  TalesSplit split = TalesSplit::train;
  std::vector<std::string> kinds;  // empty: all kinds except "pair"
  int64_t turns = 4;               // maximum number of questions per story, each of a different kind
  uint64_t seed = 1;
  int64_t first = 0;
};

// Generates the conversations with the numbers options.first, options.first + 1, and so on. Each conversation
// depends only on the options and its number. Throws invalid_argument for an unknown kind, for values of
// turns or first that are out of range, or unless 1 <= count <= 10,000,000.
std::vector<TalesConversation> tales_conversations(int64_t count, const TalesConversationOptions& options);

// Generates stories in which every word that questions could ask for has an invented name, as in the train
// split. A model can only continue such a text by looking back. Throws invalid_argument unless 1 <= bytes <=
// 2^32.
std::string invented_tales(int64_t bytes, uint64_t seed);

// Return conversations as JSON Lines for gpt finetune. chat_lines writes one conversation per line, with the
// story before the first question. grpo_lines writes one line per question: "messages" with the story and the
// question, and "answer".
std::string chat_lines(const std::vector<TalesConversation>& conversations);
std::string grpo_lines(const std::vector<TalesConversation>& conversations);

}  // namespace gpt

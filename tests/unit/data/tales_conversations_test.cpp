#include "data/tales_conversations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/parse.h"
#include "data/grammar.h"
#include "data/tales.h"
#include "data/tales_questions.h"
#include "support/names.h"

namespace gpt {
namespace {

using Strings = std::set<std::string>;

Strings words_in(const std::string& text) {
  static const std::regex word("[A-Za-z]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), word), {}};
}

Strings both(const Strings& a, const Strings& b) {
  Strings out;
  std::ranges::set_intersection(a, b, std::inserter(out, out.end()));
  return out;
}

// The words, questions and answers that occur in one split.
struct Split {
  explicit Split(TalesSplit split) {
    for (const TalesConversation& c :
         tales_conversations(400, {.split = split, .kinds = tales_question_kinds(), .turns = 9})) {
      words.merge(words_in(c.story));
      for (const TalesTurn& turn : c.turns) {
        answers.insert(turn.answer);
        questions.insert(turn.question);
      }
    }
  }
  Strings words, questions, answers;
};

TEST(TalesConversations, SplitsShareNoAnswerNoWordOfOneAndNoQuestion) {
  const Split train(TalesSplit::train), test(TalesSplit::test);
  EXPECT_GT(train.answers.size(), 300u);
  EXPECT_EQ(both(train.questions, test.questions), Strings());
  Strings asked;
  for (const auto* answers : {&train.answers, &test.answers}) {
    for (const std::string& answer : *answers)
      asked.merge(words_in(answer));
  }
  for (const char* word : {"The", "hero", "friend", "two", "is", "are", "and"})
    asked.erase(word);
  EXPECT_GT(both(asked, train.words).size(), 1000u);
  EXPECT_GT(both(asked, test.words).size(), 200u);
  EXPECT_EQ(both(both(asked, train.words), test.words), Strings());
}

TEST(TalesConversations, AnswersAreInTheStoryAndOfTheirKind) {
  const Strings toys = [] {
    Strings words;
    for (const Grammar::Word& word : tales_grammar().table("toys").words)
      words.insert(word.forms.front());
    return words;
  }();
  for (const TalesConversation& c : tales_conversations(200, {.split = TalesSplit::test, .turns = 8})) {
    const Strings words = words_in(c.story);
    Strings kinds;
    for (const TalesTurn& turn : c.turns) {
      ASSERT_TRUE(turn.answer.ends_with('.')) << turn.answer;
      const std::string phrase = turn.answer.substr(0, turn.answer.size() - 1);
      const std::string word = phrase.substr(phrase.rfind(' ') + 1);
      EXPECT_TRUE(words.contains(word)) << c.story << turn.kind << ": " << word;
      EXPECT_EQ(turn.question.find('{'), std::string::npos);
      EXPECT_TRUE(kinds.insert(turn.kind).second);
      EXPECT_EQ(turn.kind == "toy" || turn.kind == "color", toys.contains(word));
      if (turn.kind == "kind") {
        EXPECT_NE(c.story.substr(0, c.story.find('.')).find(word), std::string::npos) << c.story;
      }
    }
    EXPECT_FALSE(kinds.contains("pair"));
    EXPECT_GE(c.turns.size(), 7u);
    EXPECT_TRUE(std::isfinite(tales_grammar().score(c.story + "\n", false).log_p)) << c.story;
  }
}

TEST(TalesConversations, DependOnSeedAndNumberAlone) {
  const auto all = tales_conversations(6, {.seed = 3});
  const auto last = tales_conversations(2, {.seed = 3, .first = all[4].number});
  EXPECT_EQ(chat_lines({all[4], all[5]}), chat_lines(last));
  EXPECT_NE(chat_lines(tales_conversations(6, {.seed = 4})), chat_lines(all));
}

TEST(TalesConversations, LinesAreWhatFinetuneReads) {
  const auto conversations = tales_conversations(3, {.kinds = {"pair", "color"}, .turns = 2});
  const std::string chat_text = chat_lines(conversations), grpo_text = grpo_lines(conversations);
  const auto chat = split(chat_text, '\n'), grpo = split(grpo_text, '\n');
  ASSERT_EQ(chat.size(), 4u);
  ASSERT_EQ(grpo.size(), 7u);
  const auto messages = nlohmann::json::parse(chat[0])["messages"];
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0]["role"], "user");
  EXPECT_EQ(messages[1]["role"], "assistant");
  EXPECT_EQ(messages[0]["content"], conversations[0].story + "\n\n" + conversations[0].turns[0].question);
  EXPECT_EQ(messages[2]["content"], conversations[0].turns[1].question);
  const auto second = nlohmann::json::parse(grpo[1]);
  EXPECT_EQ(second["messages"][0]["content"],
            conversations[0].story + "\n\n" + conversations[0].turns[1].question);
  EXPECT_EQ(second["answer"], messages[3]["content"]);
}

TEST(TalesConversations, InventedTalesAreTalesWithOtherWords) {
  const std::string text = invented_tales(20000, 3);
  EXPECT_EQ(std::ssize(text), 20000);
  const Strings words = words_in(text);
  for (const char* table : {"girls", "animals", "foods", "colors"}) {
    for (const Grammar::Word& word : tales_grammar().table(table).words)
      EXPECT_FALSE(words.contains(word.forms.front())) << word.forms.front();
  }
  EXPECT_TRUE(words.contains("Once"));
  EXPECT_EQ(text, invented_tales(20000, 3));
  EXPECT_NE(text, invented_tales(20000, 4));
  EXPECT_ERROR(invented_tales(0, 1), ErrorCode::invalid_argument);
}

TEST(TalesConversations, MistakesAreNamed) {
  EXPECT_ERROR(tales_conversations(0, {}), ErrorCode::invalid_argument);
  EXPECT_ERROR(tales_conversations(1, {.turns = 0}), ErrorCode::invalid_argument);
  EXPECT_ERROR(tales_conversations(1, {.first = -1}), ErrorCode::invalid_argument);
  for (const int64_t number : {int64_t{-1}, INT64_MAX}) {
    EXPECT_ERROR(tales_conversations(1, {.first = number}), ErrorCode::invalid_argument);
    EXPECT_ERROR(generate_tales(10, 1, number), ErrorCode::invalid_argument);
    EXPECT_ERROR(labelled_tales("choose", 1, 1, number), ErrorCode::invalid_argument);
    EXPECT_ERROR(tales_questions(1, 1, number), ErrorCode::invalid_argument);
  }
  EXPECT_ERROR(tales_conversations(1, {.kinds = {"weather"}}), ErrorCode::invalid_argument);
}

TEST(Grammar, WithoutWordsTheOthersKeepTheirWeights) {
  const Grammar all("=s\n1 {v=t}\n@t : a*3 b c\n");
  const Grammar some = all.without([](const Grammar::Word& word) { return word.forms.front() == "b"; });
  EXPECT_NEAR(std::exp(some.score("a", true).log_p), 0.75, 1e-12);
  EXPECT_NEAR(std::exp(some.score("c", true).log_p), 0.25, 1e-12);
  EXPECT_EQ(some.score("b", true).derivations, 0);
  EXPECT_NEAR(std::exp(all.score("b", true).log_p), 0.2, 1e-12);
  Grammar::Values values;
  std::string text;
  RandomStream random(1, RandomSite::corpus, 0, 0);
  some.sample(random, text, values);
  EXPECT_EQ(values[some.variable("v")]->forms.front(), text);
}

}  // namespace
}  // namespace gpt

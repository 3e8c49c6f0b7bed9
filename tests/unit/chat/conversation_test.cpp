#include "chat/conversation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;

const Tokenizer& chat_tokenizer() {
  static const std::unique_ptr<Tokenizer> loaded =
      load_tokenizer(GPT_SOURCE_DIR "/tests/data/chat.tokenizer.json");
  return *loaded;
}

class Conversations : public testing::Test {
 protected:
  Ids answer_ids(const std::string& text) const { return chat_tokenizer().encode(text); }
  Ids prompt(std::vector<ChatMessage> messages) const { return format_.encode(messages, true); }

  const ChatTemplate format_{ChatFormat::chatml, chat_tokenizer()};
};

TEST_F(Conversations, ArePromptsOfAllTurns) {
  Conversation c(format_, "be brief", 4096);
  EXPECT_EQ(c.ask("one", 100), prompt({{"system", "be brief"}, {"user", "one"}}));
  c.answer(answer_ids("first"));
  EXPECT_EQ(c.ask("two", 100),
            prompt({{"system", "be brief"}, {"user", "one"}, {"assistant", "first"}, {"user", "two"}}));
  EXPECT_EQ(c.turns(), 2);
  c.reset();
  EXPECT_EQ(c.ask("three", 100), prompt({{"system", "be brief"}, {"user", "three"}}));
}

TEST_F(Conversations, KeepTheIdsOfAnswersAsTheModelGaveThem) {
  Conversation c(format_, "", 4096);
  c.ask("one", 100);
  const Ids odd{5, 5, 5, 9};
  c.answer(odd);
  const Ids ids = c.ask("two", 100);
  EXPECT_NE(std::search(ids.begin(), ids.end(), odd.begin(), odd.end()), ids.end());
}

TEST_F(Conversations, KeepIdsThatTheTokenizerDoesNotHave) {
  Conversation c(format_, "", 4096);
  c.ask("one", 100);
  const Ids odd{5, static_cast<int32_t>(chat_tokenizer().vocab_size()), 9};
  c.answer(odd);
  const Ids ids = c.ask("two", 100);
  EXPECT_NE(std::search(ids.begin(), ids.end(), odd.begin(), odd.end()), ids.end());
}

TEST_F(Conversations, ForgetTheOldestTurnsAndNeverTheSystemMessage) {
  constexpr int64_t kContext = 200;
  Conversation c(format_, "be brief", kContext);
  int64_t forgotten = 0;
  for (int turn = 0; turn < 40; ++turn) {
    const std::string text = "question " + std::to_string(turn);
    const Ids ids = c.ask(text, 40);
    EXPECT_LE(std::ssize(ids) + 40, kContext);
    const Ids opening = prompt({{"system", "be brief"}, {"user", "x"}});
    EXPECT_TRUE(std::equal(opening.begin(), opening.begin() + 4, ids.begin()));
    const Ids last = format_.encode_turn(text);
    EXPECT_TRUE(std::equal(last.rbegin(), last.rbegin() + 4, ids.rbegin()));
    forgotten += c.forgotten();
    EXPECT_EQ(c.turns() + forgotten, turn + 1);
    c.answer(answer_ids("an answer of some length"));
  }
  EXPECT_GT(forgotten, 20);
}

TEST_F(Conversations, AMessageThatFitsNowhereChangesNothing) {
  Conversation c(format_, "", 64);
  c.ask("one", 10);
  c.answer(answer_ids("first"));
  EXPECT_THROW(c.ask(std::string(5000, 'x'), 10), Error);
  EXPECT_EQ(c.turns(), 1);
  EXPECT_EQ(c.ask("two", 10), prompt({{"user", "one"}, {"assistant", "first"}, {"user", "two"}}));
}

}  // namespace
}  // namespace gpt

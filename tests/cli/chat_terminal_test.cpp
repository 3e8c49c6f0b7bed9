// Tests gpt chat with a user at a terminal.

#include <gtest/gtest.h>

#include "run_gpt.h"
#include "support/temp_dir.h"
#include "terminal.h"

namespace {

const std::string kTokenizer = std::string(GPT_SOURCE_DIR) + "/tests/data/chat.tokenizer.json";

class ChatTerminal : public testing::Test {
 protected:
  // Trains a model that is large enough for responses to take seconds with the scalar reference. Ctrl-C
  // therefore always arrives before the end of a response.
  static void SetUpTestSuite() {
    folder() = new gpt::test::TempDir;
    const GptRun run = run_gpt({"train",
                                "--data",
                                "tales:20000",
                                "--tokenizer",
                                kTokenizer,
                                "--n-layer",
                                "4",
                                "--n-head",
                                "4",
                                "--n-embd",
                                "256",
                                "--n-ctx",
                                "2048",
                                "--steps",
                                "1",
                                "--warmup",
                                "0",
                                "--eval-every",
                                "0",
                                "--batch-size",
                                "1",
                                "--out",
                                folder()->file("run")});
    ASSERT_EQ(run.status, 0) << run.err;
  }
  static void TearDownTestSuite() { delete folder(); }
  static gpt::test::TempDir*& folder() {
    static gpt::test::TempDir* dir = nullptr;
    return dir;
  }
  static std::vector<std::string> chat(const std::string& max_tokens) {
    return {"chat", folder()->file("run"), "--template", "nanochat", "--greedy", "--max-tokens", max_tokens};
  }
};

TEST_F(ChatTerminal, PromptsAnswersAndCounts) {
  Terminal terminal(chat("4"), {});
  EXPECT_TRUE(names(terminal.wait_for("> "), {"nanochat", 2048, "/help"}));
  terminal.type("Once\n");
  EXPECT_TRUE(names(terminal.wait_for("tokens/s"), {4}));
  terminal.wait_for("> ");
  terminal.type("/help\n");
  EXPECT_TRUE(names(terminal.wait_for("> "), {"/reset", "/exit"}));
  terminal.type("/hlep\n");
  terminal.wait_for("/hlep\r\n");  // echoed by the terminal
  EXPECT_TRUE(names(terminal.wait_for("> "), {"/hlep", "/reset", "/exit", "/help"}));
  terminal.type("/reset\n");
  terminal.wait_for("/reset\r\n");
  EXPECT_NE(terminal.wait_for("> "), "> ") << "says that it has forgotten";
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.end(), 0);
}

TEST_F(ChatTerminal, CtrlCEndsTheAnswerAndNotTheProgram) {
  Terminal terminal(chat("2000"), {"GPT_ISA=ref"});
  terminal.wait_for("> ");
  terminal.type("Once\n");
  terminal.wait_for("Once\r\n");  // echoed by the terminal
  terminal.wait_for_output();
  terminal.type("\x03");
  EXPECT_FALSE(names(terminal.wait_for("tokens/s"), {2000})) << "the answer had ended before";
  terminal.wait_for("> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.end(), 0);
}

TEST_F(ChatTerminal, CtrlCAtThePromptEndsTheProgram) {
  Terminal terminal(chat("4"), {});
  terminal.wait_for("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.end(), 130);
}

TEST_F(ChatTerminal, AMistakeDoesNotEndTheConversation) {
  Terminal terminal(chat("4"), {});
  terminal.wait_for("> ");
  terminal.type("a\xFF\n");
  EXPECT_TRUE(names(terminal.wait_for("> "), {"UTF-8", 1}));
  terminal.type("Once\n");
  EXPECT_TRUE(names(terminal.wait_for("tokens/s"), {4}));
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.end(), 0);
}

}  // namespace

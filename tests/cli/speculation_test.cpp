// Tests speculative decoding in all commands that generate.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "chat_model.h"
#include "gpt_process.h"
#include "http_client.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kGolden = GPT_SOURCE_DIR "/tests/golden/data/";

class Speculate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = (fs::path(testing::TempDir()) / ("speculate" + std::to_string(::getpid()))).string();
    train_chat_model(folder());
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }
  static std::string& folder() {
    static std::string path;
    return path;
  }
  static json generate(std::vector<std::string> more) {
    const std::vector<std::string> words = {
        "generate",     folder(), "--json",    "--prompt", "Once upon a time", "--greedy",   "--threads", "1",
        "--max-tokens", "120",    "--context", "stop",     "--ignore-eos",     "--logprobs", "1"};
    more.insert(more.begin(), words.begin(), words.end());
    const GptRun run = run_gpt(more);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.status == 0 ? json::parse(run.out)["completions"] : json();
  }
  // Checks that a command is refused with a usage error (status 2) that contains the facts.
  static void refused(const std::vector<std::string>& words, const Facts& facts) {
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 2);
    EXPECT_TRUE(names(run.err, facts));
  }
};

// Removes the counts of draft tokens from completions.
json plain(json completions) {
  for (json& c : completions) {
    c.erase("draft_tokens");
    c.erase("accepted_tokens");
  }
  return completions;
}

TEST_F(Speculate, GivesTheTextsThatThereAreWithout) {
  const json without = generate({});
  EXPECT_FALSE(without[0].contains("draft_tokens"));
  const json ngram = generate({"--speculate", "ngram"});
  EXPECT_EQ(plain(ngram), without);
  EXPECT_GT(ngram[0]["draft_tokens"], 0) << "a text of a small model repeats itself";
  EXPECT_GE(ngram[0]["draft_tokens"], ngram[0]["accepted_tokens"]);
  const json draft = generate({"--draft", folder(), "--draft-tokens", "4"});
  EXPECT_EQ(plain(draft), without);
  EXPECT_GT(draft[0]["draft_tokens"], 0);
  EXPECT_EQ(draft[0]["draft_tokens"], draft[0]["accepted_tokens"]) << "the model guesses itself";
  const std::vector<std::string> drawn = {"--n", "5", "--temperature", "0.8", "--prompt", "A cat"};
  std::vector<std::string> speculating = drawn;
  speculating.insert(speculating.end(), {"--speculate", "ngram"});
  EXPECT_EQ(plain(generate(speculating)), generate(drawn));
}

TEST_F(Speculate, RefusesByNameWhatDoesNotFit) {
  refused({"generate", kGolden + "llama", "--ids", "1,2", "--draft", kGolden + "gpt2"},
          {"--draft", 43, 53, kGolden + "gpt2"});
  const std::vector<std::string> generate = {"generate", folder(), "--prompt", "A"};
  const auto with = [&](const std::vector<std::string>& more, const Facts& facts) {
    std::vector<std::string> words = generate;
    words.insert(words.end(), more.begin(), more.end());
    refused(words, facts);
  };
  with({"--draft", "16"}, {"--draft", "--draft-tokens 16"});
  with({"--speculate", "draft"}, {"--speculate", "'draft'"});
  with({"--speculate", "eagle"}, {"--speculate", "'ngram'", "'draft'", "'off'", "'eagle'"});
  with({"--speculate", "off", "--draft", folder()}, {"--speculate", "'draft'", folder(), "'off'"});
  with({"--speculate", "ngram", "--draft-tokens", "0"}, {"--draft-tokens", 1, 64, 0});
  with({"--speculate", "ngram", "--beams", "2"}, {"--speculate", "--beams"});
  with({"--spec-type", "ngram-simple"}, {"--spec-type", "--speculate ngram", "--draft MODEL"});
  const GptRun named = run_gpt({"generate", folder(), "--prompt", "A", "-md", folder(), "--draft-max", "3"});
  EXPECT_EQ(named.status, 0) << named.err;
}

// If the model supports a setting but the draft model does not, the error names the draft model.
TEST_F(Speculate, SaysThatItIsTheDraftThatDoesNotFit) {
  const gpt::test::TempDir dir;
  const std::string text = dir.file("text.txt"), wide = dir.file("wide"), narrow = dir.file("narrow");
  std::ofstream(text) << std::string(2000, 'a');
  for (const auto& [out, heads] : {std::pair(wide, "1"), std::pair(narrow, "4")}) {
    const GptRun trained =
        run_gpt({"train", "--preset", "tiny", "--tokenizer", "byte", "--data", text, "--steps", "1",
                 "--n-embd", "32", "--n-head", heads, "--n-kv-head", heads, "--out", out});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  const std::vector<std::string> flags = {"--draft", narrow, "--kv-dtype", "q4_0"};
  for (std::vector<std::string> words : {std::vector<std::string>{"serve", wide, "--port", "0"},
                                         std::vector<std::string>{"generate", wide, "--prompt", "a"}}) {
    words.insert(words.end(), flags.begin(), flags.end());
    refused(words, {"--draft", narrow, "q4_0", 32, "head_dim", 8});
  }
}

TEST_F(Speculate, ChatsAsWithout) {
  const auto chat = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"chat",   folder(),   "Once upon a time", "--template", "nanochat",
                                      "--json", "--greedy", "--max-tokens",     "60",         "--threads",
                                      "1"};
    words.insert(words.end(), more.begin(), more.end());
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.status == 0 ? json::parse(run.out) : json();
  };
  const json without = chat({}), ngram = chat({"--speculate", "ngram"}), draft = chat({"--draft", folder()});
  EXPECT_EQ(ngram["ids"], without["ids"]);
  EXPECT_EQ(draft["ids"], without["ids"]);
  EXPECT_EQ(without["draft_tokens"], 0);
  EXPECT_GT(draft["draft_tokens"], 0);
}

// Checks the counters of a server and its responses.
TEST_F(Speculate, ServersCountWhatCameTrue) {
  const auto serve = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"serve", "--port", "0", "--threads", "1", "tiny=" + folder()};
    words.insert(words.end(), more.begin(), more.end());
    GptProcess process(words);
    const std::string mark = "http://127.0.0.1:";
    EXPECT_TRUE(process.wait_for_note(mark)) << process.notes();
    const auto place = [&] { return process.notes().find(mark) + mark.size(); };
    EXPECT_TRUE(process.wait_until([&] { return process.notes().find('\n', place()) != std::string::npos; }));
    const int port = std::stoi(process.notes().substr(place()));
    const json body = {{"prompt", "Once upon a time"},
                       {"max_tokens", 100},
                       {"temperature", 0},
                       {"ignore_eos", true},
                       {"n", 3}};
    const auto answer = HttpClient(port).post("/v1/completions", body.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return std::pair(json::parse(answer.body)["choices"], HttpClient(port).ask("GET", "/metrics").body);
  };
  const auto count = [](const std::string& page, const std::string& name) {
    const std::string mark = "\ngptcpp_" + name + "{model=\"tiny\"} ";
    const size_t at = page.find(mark);
    return at == std::string::npos ? -1 : std::stoll(page.substr(at + mark.size()));
  };
  const auto [without, none] = serve({});
  EXPECT_EQ(count(none, "draft_tokens_total"), 0);
  const auto [ngram, page] = serve({"--speculate", "ngram"});
  EXPECT_EQ(ngram, without);
  EXPECT_GT(count(page, "draft_tokens_total"), 0);
  EXPECT_GE(count(page, "draft_tokens_total"), count(page, "accepted_tokens_total"));
  const auto [draft, other] = serve({"--draft", "tiny=" + folder()});
  EXPECT_EQ(draft, without);
  EXPECT_GT(count(other, "draft_tokens_total"), 0);
  refused({"serve", folder(), "--draft", kGolden + "gpt2", "--port", "0"},
          {"--draft", 432, 53, kGolden + "gpt2"});
  refused({"serve", folder(), "--draft", "other=" + folder()}, {"--draft other=" + folder(), "other"});
  refused({"serve", folder(), "--speculate", "draft"},
          {"--speculate draft", fs::path(folder()).filename().string()});
}

}  // namespace

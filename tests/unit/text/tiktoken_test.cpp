#include "text/tiktoken.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/rng.h"
#include "support/temp_dir.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
using test::expect_message;
using test::expect_rows;
using test::Fact;
using test::kTextData;

const std::string kFile = kTextData + "ranks.nanochat.tiktoken";

// The expected ids are from tiktoken (scripts/golden/make_tokenizers.py). Many tokens have parts that are not
// tokens.
TEST(Tiktoken, GivesTheIdsOfTiktoken) {
  const auto tokenizer = load_tokenizer(kFile);
  EXPECT_EQ(tokenizer->vocab_size(), 556);
  expect_rows(*tokenizer, kTextData + "ranks.jsonl", 80);
}

TEST(Tiktoken, AsTokenizerModel) {
  const test::TempDir folder;
  std::filesystem::copy_file(kFile, folder.file("tokenizer.model"));
  expect_message([&] { load_tokenizer(folder.path()); }, "tokenizer.model", {556});
}

// The number of ranks identifies the vocabularies published by Llama 3 and OpenAI.
TEST(Tiktoken, PublishedVocabulariesHaveTheirSpecialTokens) {
  const test::TempDir folder;
  const auto write = [&](int ranks) {
    std::string file = read_file(kFile);
    constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int id = 556; id < ranks; ++id) {  // three bytes each, of which the first is zero
      const char base64[] = {'A', kDigits[id >> 12 & 15], kDigits[id >> 6 & 63], kDigits[id & 63], 0};
      file += fmt::format("{}{} {}\n", base64, "//8=", id);
    }
    test::write_plain_file(folder.file("tokenizer.model"), file);
  };
  write(50256);
  EXPECT_EQ(load_tokenizer(folder.path())->encode_special("<|endoftext|>"), Ids{50256});
}

TEST(Tiktoken, PicklesAreNotRead) {
  const test::TempDir folder;
  test::write_plain_file(folder.file("tokenizer.pkl"), "\x80\x04.");
  expect_message([&] { load_tokenizer(folder.path()); }, "tokenizer.pkl", {"tokenizer.json", "tiktoken"});
  expect_message([&] { load_tokenizer(folder.file("tokenizer.pkl")); }, "tokenizer.pkl",
                 {"tokenizer.json", "tiktoken"});
}

TEST(Tiktoken, SaysWhatItCannotRead) {
  const std::string good = read_file(kFile);
  const auto expect = [&](const std::string& more, std::initializer_list<Fact> facts) {
    const test::TempDir folder;
    test::write_plain_file(folder.file("x.gpt2.tiktoken"), good + more);
    expect_message([&] { load_tokenizer(folder.file("x.gpt2.tiktoken")); }, "x.gpt2.tiktoken", facts);
  };
  expect("YWE= 700\nYWE= 700\n", {"line 558", 700});
  expect("IQ== 700\n", {33, 700});
  expect("YWE=\n", {"line 557"});
  expect("YWE= -1\n", {"line 557"});
  expect("YWE= 99999999999999999999\n", {"line 557"});
  expect("YWE= 4194304\n", {"line 557"});
  expect("YWE= 7x\n", {"line 557"});
  expect("YW!= 700\n", {"line 557"});
  expect("YWE 700\n", {"line 557"});
  expect("YWF= 700\n", {"line 557"});  // has bits beyond the last byte
  expect("Y=== 700\n", {"line 557"});
  expect(" 700\n", {"line 557"});
  expect(std::string(4000, 'A') + " 700\n", {"line 557", 3000});
  const test::TempDir folder;
  test::write_plain_file(folder.file("x.gpt2.tiktoken"), good.substr(good.find('\n') + 1));
  expect_message([&] { load_tokenizer(folder.file("x.gpt2.tiktoken")); }, "x.gpt2.tiktoken", {"0x00"});
}

// Long tokens do not consist of other tokens. The search for their parts must end.
TEST(Tiktoken, TokensWithoutParts) {
  detail::BpeParts parts;
  for (int b = 0; b < 256; ++b)
    parts.tokens.emplace_back(1, static_cast<char>(b));
  RandomStream random(10, RandomSite::test);
  for (int i = 0; i < 2000; ++i) {
    std::string token(1000, 'a');
    for (char& c : token)
      c = static_cast<char>(random.below(256));
    parts.tokens.push_back(std::move(token));
  }
  parts.ranks = true;
  expect_message([&] { detail::make_bpe_tokenizer(std::move(parts)); }, "token", {1304});
}

}  // namespace
}  // namespace gpt

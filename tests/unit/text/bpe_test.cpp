#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "support/reference.h"
#include "support/temp_dir.h"
#include "text/bpe_tokenizer.h"
#include "text/tokenizer.h"
#include "text/vocab_data.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
const std::string kData = GPT_SOURCE_DIR "/tests/data/";

std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b)
    tokens.emplace_back(1, static_cast<char>(b));
  return tokens;
}

struct Merges {
  std::vector<std::string> tokens;
  std::vector<Bpe::Merge> merges;
};

// Returns random merges over the bytes in `usable`. Both tokens of each merge exist.
Merges random_merges(uint64_t seed, std::vector<int32_t> usable) {
  RandomStream random(seed, RandomSite::test);
  std::vector<std::string> tokens = byte_tokens();
  std::vector<Bpe::Merge> merges;
  while (merges.size() < 60) {
    const int32_t left = usable[random.below(usable.size())], right = usable[random.below(usable.size())];
    const std::string bytes = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
    if (std::find(tokens.begin(), tokens.end(), bytes) != tokens.end()) continue;
    const auto id = static_cast<int32_t>(tokens.size());
    tokens.push_back(bytes);
    merges.push_back({left, right, id});
    usable.push_back(id);
  }
  return {std::move(tokens), std::move(merges)};
}

Bpe random_bpe(uint64_t seed) {
  Merges made = random_merges(seed, {'a', 'b', 'c', 'd'});
  return {std::move(made.tokens), std::move(made.merges)};
}

// Characters of one to four bytes that share some bytes, and parts of characters.
const std::vector<std::string> kCharacters = {"a",          " ",          "\u0416", "\u0436",
                                              "\u0426",     "\u4E2D",     "\u4E36", "\u8AAD",
                                              "\U0001F600", "\U0001F616", "\xE4",   "\xB8"};

std::string random_text(RandomStream& random, size_t characters) {
  std::string text;
  for (size_t i = 0; i < characters; ++i)
    text += kCharacters[random.below(kCharacters.size())];
  return text;
}

// Returns merges of the bytes of these characters: within a character, across characters, and of parts of
// characters.
Merges random_merges_of_characters(uint64_t seed) {
  std::vector<int32_t> usable;
  for (const char c : std::string("a\xD0\x96\xB6\xE4\xB8\xAD\xF0\x9F\x98\x80"))
    usable.push_back(static_cast<unsigned char>(c));
  return random_merges(seed, usable);
}

// Encodes by definition: merges the first pair of the lowest rank until there is no pair left.
Ids by_definition(const Bpe& bpe, std::string_view text) {
  Ids ids;
  for (const char c : text)
    ids.push_back(static_cast<unsigned char>(c));
  for (size_t m = 0; m < bpe.merges().size();) {
    const Bpe::Merge& merge = bpe.merges()[m];
    size_t at = 0;
    while (at + 1 < ids.size() && (ids[at] != merge.left || ids[at + 1] != merge.right))
      ++at;
    if (at + 1 >= ids.size()) {
      ++m;
      continue;
    }
    ids[at] = merge.result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    m = 0;  // the new token may belong to an earlier merge
  }
  return ids;
}

// Bytes without a token are dropped, and the bytes around them become adjacent, like in Hugging Face
// tokenizers.
TEST(Bpe, BytesWithoutATokenAreLeftOut) {
  const Bpe bpe({"a", "b", "ab"}, {{0, 1, 2}});
  std::vector<int32_t> ids = {7};
  bpe.encode("acbcab", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{7, 2, 2}));
  bpe.encode("ccc", ids);
  EXPECT_EQ(ids.size(), 3u);
}

TEST(Bpe, AgreesWithTheDefinition) {
  RandomStream random(1, RandomSite::test);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Bpe bpe = random_bpe(seed);
    for (int round = 0; round < 60; ++round) {
      std::string text(random.below(round % 2 == 0 ? 48 : 200),
                       // Short and long pieces use different algorithms.
                       'a');
      for (char& c : text)
        c = static_cast<char>('a' + random.below(seed < 3 ? 2 : 4));
      Ids ids;
      bpe.encode(text, ids);
      EXPECT_EQ(ids, by_definition(bpe, text)) << text;
    }
  }
}

TEST(Bpe, PiecesHaveTheIdsOfTheirParts) {
  RandomStream random(2, RandomSite::test);
  size_t parts = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Merges made = random_merges_of_characters(seed);
    const Bpe bpe(std::move(made.tokens), std::move(made.merges));
    for (int round = 0; round < 40; ++round) {
      const std::string text = random_text(random, 1 + random.below(30));
      Ids ids, of_parts;
      bpe.encode(text, ids);
      for (size_t from = 0, end = 0; from < text.size(); from = end, ++parts) {
        end = bpe.end_of_part(text, from);
        ASSERT_GT(end, from);
        bpe.encode(text.substr(from, end - from), of_parts);
      }
      ASSERT_EQ(ids, of_parts) << text;
    }
  }
  EXPECT_GT(parts, 4 * 1600u);
}

// The bytes around dropped bytes may be merged, so the text must not be split there.
TEST(Bpe, NoPartsWhereBytesHaveNoToken) {
  const Bpe bpe({"a", "\xC3", "\xA9", "\xC3\xA9"}, {{1, 2, 3}});
  EXPECT_EQ(bpe.end_of_part("a\u00E9a\u00E9", 0), 6u);
}

// Compares a tokenizer that has cached earlier texts with a new one, whose cache is empty. Tokens that no
// merge creates only match whole pieces, and must not match parts of pieces.
TEST(BpeTokenizer, PartsOfPiecesAreNoWholePieces) {
  RandomStream random(3, RandomSite::test);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Merges made = random_merges_of_characters(seed);
    for (const char* const unmade :
         {"\u0436\u0436", "\u4E2D", "\u0426", "\u8AAD\u8AAD\u4E36\u4E36\u4E2D\u4E2D"}) {
      if (std::ranges::find(made.tokens, unmade) == made.tokens.end()) made.tokens.emplace_back(unmade);
    }
    const auto make = [&] {
      return detail::make_bpe_tokenizer(
          {.tokens = made.tokens, .merges = made.merges, .ignore_merges = true});
    };
    const auto used = make();
    for (int round = 0; round < 300; ++round) {
      std::string text = random_text(random, 1 + random.below(200));
      for (int i = 0; i < 6; ++i)
        text += " " + made.tokens[made.tokens.size() - 1 - random.below(4)];
      ASSERT_EQ(used->encode(text), make()->encode(text)) << text;
    }
  }
}

TEST(Bpe, FindsTokensByTheirBytes) {
  const Bpe bpe = random_bpe(2);
  for (size_t id = 0; id < bpe.tokens().size(); ++id)
    EXPECT_EQ(bpe.find(bpe.tokens()[id]), static_cast<int32_t>(id));
  EXPECT_EQ(bpe.find("no such token"), -1);
  EXPECT_EQ(bpe.find(""), -1);
}

TEST(Bpe, RefusesContradictions) {
  const auto make = [](std::vector<std::string> tokens, std::vector<Bpe::Merge> merges) {
    return Bpe(std::move(tokens), std::move(merges));
  };
  std::vector<std::string> tokens = byte_tokens();
  tokens.emplace_back("ab");
  EXPECT_NO_THROW(make(tokens, {{'a', 'b', 256}}));
  EXPECT_THROW(make(tokens, {{'a', 'b', 257}}), Error);
  EXPECT_THROW(make(tokens, {{'a', -1, 256}}), Error);
  EXPECT_THROW(make(tokens, {{'a', 'c', 256}}), Error);
  tokens.emplace_back("ab");
  EXPECT_THROW(make(tokens, {}), Error);
}

void expect_ids(const Tokenizer& tokenizer, const std::string& rows, int count) {
  std::ifstream file(rows);
  int compared = 0;
  for (std::string line; std::getline(file, line); ++compared) {
    const auto row = nlohmann::json::parse(line);
    const std::string text = row["text"];
    const Ids ids = row["special"] ? tokenizer.encode_special(text) : tokenizer.encode(text);
    EXPECT_EQ(ids, row["ids"].get<Ids>()) << line;
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
  EXPECT_EQ(compared, count);
}

// The expected ids are from Hugging Face tokenizers (scripts/golden/make_text.py).
TEST(BpeTokenizer, GivesTheSameIdsAsTokenizers) {
  const auto tokenizer = load_tokenizer(kData + "bpe.tokenizer.json");
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 420);
  expect_ids(*tokenizer, kData + "bpe.jsonl", 63);
  expect_ids(*parse_tokenizer(tokenizer->to_json(), "written again"), kData + "bpe.jsonl", 63);
}

// Encoding of a long text uses the piece cache. The ids of the text are those of its parts, which are too
// short for the cache.
TEST(BpeTokenizer, LongTextsAreTheSumOfTheirPieces) {
  const auto tokenizer = load_tokenizer(kData + "bpe.tokenizer.json");
  RandomStream random(4, RandomSite::test);
  std::string text;
  Ids expected;
  while (text.size() < 60000) {
    std::string word(1 + random.below(18), 'a');
    for (char& c : word)
      c = "aeinorst"[random.below(random.below(3) == 0 ? 8 : 2)];
    word = " " + word;
    text += word;
    const Ids ids = tokenizer->encode(word);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(tokenizer->encode(text), expected);
}

TEST(BpeTokenizer, SpecialTokensAreTextUnlessAskedFor) {
  const auto tokenizer = load_tokenizer(kData + "bpe.tokenizer.json");
  EXPECT_EQ(tokenizer->encode_special("<|end|>"), Ids{1});
  EXPECT_GT(tokenizer->encode("<|end|>").size(), 1u);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a<|end|>b")), "a<|end|>b");
  EXPECT_EQ(tokenizer->token_bytes(1), "<|end|>");
}

TEST(BpeTokenizer, Gpt2) {
  const std::string file = test::reference_path("../data/tokenizers/gpt2/tokenizer.json");
  GPT_SKIP_WITHOUT(file);
  const auto tokenizer = load_tokenizer(file);
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->encode("Every effort moves you"), (Ids{6109, 3626, 6100, 345}));
  expect_ids(*tokenizer, test::reference_path("tokenizers/gpt2.jsonl"), 246);
  // The folder contains all three files. Without tokenizer.json, the other two files are read.
  const test::TempDir folder;
  for (const char* name : {"vocab.json", "merges.txt"})
    std::filesystem::copy_file(std::filesystem::path(file).replace_filename(name), folder.file(name));
  expect_ids(*load_tokenizer(folder.path()), test::reference_path("tokenizers/gpt2.jsonl"), 246);
}

// With the normalizer of Qwen2, different Unicode forms of the same text have the same ids.
TEST(BpeTokenizer, NormalizationFormC) {
  auto json = nlohmann::json::parse(read_file(kData + "bpe.tokenizer.json", 1 << 20));
  const auto plain = parse_tokenizer(json.dump(), "plain");
  json["normalizer"] = {{"type", "NFC"}};
  const auto composing = parse_tokenizer(json.dump(), "composing");
  const std::pair<const char*, const char*> kSpellings[] = {
      {"cafe\xCC\x81 ok", "caf\xC3\xA9 ok"},                     // a combining accent
      {"\xE2\x84\xAB", "\xC3\x85"},                              // the angstrom sign
      {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"},  // a Hangul syllable
      {"a\xCC\xA3\xCC\x82", "\xE1\xBA\xAD"},                     // two marks on one letter
      {"e\xCC\x81\xFF"
       "e\xCC\x81\xCC",
       "\xC3\xA9\xFF\xC3\xA9\xCC"},       // bytes that are not characters
      {"\xEF\xAC\x81", "\xEF\xAC\x81"}};  // a ligature is kept
  for (const auto& [spelling, composed] : kSpellings) {
    EXPECT_EQ(composing->encode(spelling), plain->encode(composed)) << composed;
    EXPECT_EQ(composing->encode(composed), plain->encode(composed)) << composed;
  }
  EXPECT_EQ(parse_tokenizer(composing->to_json(), "again")->encode("e\xCC\x81"), plain->encode("\xC3\xA9"));
}

// By default, the trainer of Hugging Face creates no tokens for bytes that do not occur in its data.
TEST(BpeTokenizer, BytesWithoutATokenAreTheUnknownOne) {
  auto json = nlohmann::json::parse(read_file(kData + "bpe.tokenizer.json", 1 << 20));
  json["added_tokens"] = nlohmann::json::array();
  json["model"]["merges"] = {"a b", "z ab"};
  json["model"]["vocab"] = {{"[UNK]", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {"z", 4}, {"zab", 5}, {"cab", 6}};
  json["added_tokens"].push_back({{"id", 0}, {"content", "[UNK]"}, {"special", true}});
  EXPECT_EQ(parse_tokenizer(json.dump(), "silent")->encode("cab"), (Ids{3}));
  json["model"]["unk_token"] = "[UNK]";
  const auto tokenizer = parse_tokenizer(json.dump(), "unk");
  for (const auto& t : {parse_tokenizer(json.dump(), "unk"), parse_tokenizer(tokenizer->to_json(), "again")})
    EXPECT_EQ(t->encode("zab\xC3\xA9"
                        "cab"),
              (Ids{5, 0, 0, 0, 3}));
  json["model"]["unk_token"] = "<unk>";
  EXPECT_THROW(parse_tokenizer(json.dump(), "t.json"), Error);
}

// Added tokens may already be in the vocabulary.
TEST(BpeTokenizer, MergesMayMakeAddedTokens) {
  auto json = nlohmann::json::parse(read_file(kData + "bpe.tokenizer.json", 1 << 20));
  const auto plain = parse_tokenizer(json.dump(), "plain");
  const int32_t id = plain->encode("s").at(0);
  json["added_tokens"].push_back({{"id", id}, {"content", "s"}, {"single_word", true}});
  const auto tokenizer = parse_tokenizer(json.dump(), "t");
  const auto again = parse_tokenizer(tokenizer->to_json(), "again");
  for (const std::string text : {"this is a test of classes", "s", "xs s sx"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    EXPECT_EQ(again->encode(text), tokenizer->encode(text)) << text;
  }
  EXPECT_EQ(tokenizer->encode("this classes"), plain->encode("this classes"));
  json["added_tokens"].back()["single_word"] = false;  // which GGUF does not support
  const auto anywhere = parse_tokenizer(json.dump(), "t");
  const auto from_gguf = tokenizer_of(anywhere->vocab_data(), "gguf");
  EXPECT_EQ(from_gguf->encode("this classes"), anywhere->encode("this classes"));
}

// A character that joins others is part of a word. Circled letters are, too.
TEST(BpeTokenizer, AddedTokensOfASingleWord) {
  auto json = nlohmann::json::parse(read_file(kData + "bpe.tokenizer.json", 1 << 20));
  const auto id = static_cast<int32_t>(parse_tokenizer(json.dump(), "plain")->vocab_size());
  json["added_tokens"].push_back({{"id", id}, {"content", "zq"}, {"single_word", true}});
  const auto tokenizer = parse_tokenizer(json.dump(), "t");
  const auto finds = [&](const std::string& text) {
    const std::vector<int32_t> ids = tokenizer->encode(text);
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (const std::string text : {"zq", "a zq.", "zq\u2460", "\u200bzq"})
    EXPECT_TRUE(finds(text)) << text;
  for (const std::string text : {"zqs", "zq\u200d", "\u200czq", "zq\u24d0", "\u2167zq", "_zq"})
    EXPECT_FALSE(finds(text)) << text;
}

// Normalized added tokens are matched after the others, in the normalized text.
TEST(BpeTokenizer, NormalizedAddedTokens) {
  auto json = nlohmann::json::parse(read_file(kData + "bpe.tokenizer.json", 1 << 20));
  const auto size = static_cast<int32_t>(parse_tokenizer(json.dump(), "t")->vocab_size());
  json["added_tokens"].push_back({{"id", size}, {"content", "quick"}, {"normalized", true}});
  json["added_tokens"].push_back({{"id", size + 1}, {"content", "ick b"}});
  json["added_tokens"].push_back({{"id", size + 2}, {"content", "e\xCC\x81"}, {"normalized", true}});
  json["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = parse_tokenizer(json.dump(), "t");
  for (const auto& t : {parse_tokenizer(json.dump(), "t"), parse_tokenizer(tokenizer->to_json(), "again")}) {
    EXPECT_EQ(t->encode("quick"), (Ids{size}));
    EXPECT_EQ(t->encode("quick b").back(), size + 1);
    EXPECT_EQ(t->encode("\xC3\xA9"
                        "e\xCC\x81"),
              (Ids{size + 2, size + 2}));
  }
}

// The behavior matches Hugging Face tokenizers.
TEST(BpeTokenizer, TheLastOfEqualMergesCounts) {
  auto json = nlohmann::json::parse(read_file(kData + "bpe.tokenizer.json", 1 << 20));
  json["added_tokens"] = nlohmann::json::array();
  json["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}};
  json["model"]["merges"] = {"a b", "b c", "a b"};
  EXPECT_EQ(parse_tokenizer(json.dump(), "t")->encode("abc"), (Ids{0, 4}));
}

// Every error names its cause.
TEST(BpeTokenizer, RefusesWhatItCannotRead) {
  const auto good = nlohmann::json::parse(read_file(kData + "bpe.tokenizer.json", 1 << 20));
  const auto expect = [&](auto&& change, std::initializer_list<test::Fact> facts) {
    auto bad = good;
    change(bad);
    test::expect_message([&] { parse_tokenizer(bad.dump(), "t.json"); }, "t.json", facts);
  };
  using Json = nlohmann::json;
  expect([](Json& j) { j["model"]["merges"].push_back({"nosuch", "token"}); }, {"nosuch"});
  expect([](Json& j) { j["model"]["merges"].push_back("one"); }, {162, "one"});
  expect([](Json& j) { j["model"]["merges"].push_back({"a", "\xE4\xB8\xAD"}); }, {"\xE4\xB8\xAD"});
  expect([](Json& j) { j["model"]["vocab"]["zzzzzz"] = 300; }, {300});
  expect([](Json& j) { j["model"]["vocab"]["zzzzzz"] = -1; }, {"zzzzzz", -1});
  expect([](Json& j) { j["model"]["vocab"]["zzzzzz"] = uint64_t{1} << 40; }, {"zzzzzz", uint64_t{1} << 40});
  expect([](Json& j) { j["model"]["vocab"]["\xE4\xB8\xAD"] = 500; }, {"\xE4\xB8\xAD"});
  expect([](Json& j) { j["model"]["dropout"] = 0.1; }, {"dropout"});
  expect([](Json& j) { j["normalizer"] = {{"type", "NFKC"}}; }, {"normalizer"});
  expect([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?R)"; },
         {"(?R", "byte 0"});
  expect([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Odd"; }, {"behavior", "Odd"});
  expect([](Json& j) { j["pre_tokenizer"] = nullptr; }, {"pre_tokenizer"});
  expect([](Json& j) { j["added_tokens"][1]["id"] = 0; }, {0});
  expect([](Json& j) { j["added_tokens"][1]["content"] = ""; }, {1});
}

}  // namespace
}  // namespace gpt

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "support/temp_dir.h"
#include "text/spm_model.h"
#include "text/spm_tokenizer.h"
#include "text/vocab_data.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using test::expect_message;
using test::expect_rows;
using test::Fact;
using test::kTextData;
using test::names;
using Type = VocabData::TokenType;

std::unique_ptr<Tokenizer> small() {
  return load_tokenizer(kTextData + "spm.model");
}

// The expected ids are from sentencepiece (scripts/golden/make_tokenizers.py).
TEST(Spm, GivesTheIdsOfSentencePiece) {
  const auto tokenizer = small();
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 600);
  expect_rows(*tokenizer, kTextData + "spm.jsonl", 81);
  expect_rows(*tokenizer_of(tokenizer->vocab_data(), "again"), kTextData + "spm.jsonl", 81);
  EXPECT_EQ(tokenizer->special_ids().bos, 1);
  EXPECT_EQ(tokenizer->special_ids().eos, 2);
  EXPECT_EQ(tokenizer->special_ids().unk, 0);
}

TEST(Spm, TokenizerJsonGivesTheSameIds) {
  VocabData data = small()->vocab_data();
  data.types[3] = static_cast<int32_t>(Type::control);  // user-defined tokens are matched differently there
  const auto one = tokenizer_of(data, "one"), two = parse_tokenizer(one->to_json(), "two");
  const VocabData again = two->vocab_data();
  EXPECT_EQ(again.tokens, data.tokens);
  EXPECT_EQ(again.types, data.types);
  const auto three = tokenizer_of(again, "three");
  std::ifstream file(kTextData + "spm.jsonl");
  for (std::string line; std::getline(file, line);) {
    const std::string text = Json::parse(line)["text"];
    EXPECT_EQ(two->encode(text), one->encode(text)) << line;
    EXPECT_EQ(two->encode_special(text), one->encode_special(text)) << line;
    EXPECT_EQ(three->encode(text), one->encode(text)) << line;
    EXPECT_EQ(two->decode(one->encode(text)), one->decode(one->encode(text))) << line;
  }
}

// The trainers of Hugging Face tokenizers write such tokens if they are listed as special tokens.
TEST(Spm, BytePiecesMayBeSpecialTokens) {
  const auto plain = parse_tokenizer(small()->to_json(), "plain");
  Json json = Json::parse(plain->to_json());
  int bytes = 0;
  for (const auto& [text, id] : json["model"]["vocab"].items()) {
    if (!text.starts_with("<0x") || ++bytes % 2 == 0) continue;
    json["added_tokens"].push_back({{"id", id},
                                    {"content", text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  ASSERT_EQ(bytes, 256);
  const auto special = parse_tokenizer(json.dump(), "special");
  std::ifstream file(kTextData + "spm.jsonl");
  for (std::string line; std::getline(file, line);) {
    const std::string text = Json::parse(line)["text"];
    EXPECT_EQ(special->encode(text), plain->encode(text)) << line;
    EXPECT_EQ(special->decode(plain->encode(text)), plain->decode(plain->encode(text))) << line;
  }
  EXPECT_EQ(special->encode_special("<0x00>").size(), 1u);
}

TEST(Spm, LlamaGoldens) {
  const std::string rows = test::reference_path("tokenizers/llama-spm.jsonl");
  GPT_SKIP_WITHOUT(rows);
  const auto tokenizer = load_tokenizer(test::reference_path("../data/tokenizers/llama-spm"));
  EXPECT_EQ(tokenizer->vocab_size(), 32000);
  expect_rows(*tokenizer, rows, 253);
  expect_rows(*parse_tokenizer(tokenizer->to_json(), "json"), rows, 253);
  expect_rows(*tokenizer_of(tokenizer->vocab_data(), "gguf"), rows, 253);
}

TEST(Spm, SpecialTokensAreTextUnlessAskedFor) {
  const auto tokenizer = small();
  EXPECT_EQ(tokenizer->encode_special("<s></s>"), (Ids{1, 2}));
  EXPECT_GT(tokenizer->encode("<s>").size(), 1u);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a<s>b")), "a<s>b");
  EXPECT_EQ(tokenizer->token_bytes(1), "<s>");
}

// transformers adds words like this. An added word is matched in the text after spaces have been replaced by
// U+2581 and one U+2581 has been inserted at the start.
TEST(Spm, NormalizedAddedTokensAreWholeWords) {
  VocabData data = small()->vocab_data();
  data.types[3] = static_cast<int32_t>(Type::control);
  Json json = Json::parse(tokenizer_of(data, "m")->to_json());
  const auto plain = parse_tokenizer(json.dump(), "t");
  const auto id = static_cast<int32_t>(plain->vocab_size());
  json["added_tokens"].push_back({{"id", id}, {"content", "xyz"}, {"normalized", true}, {"special", false}});
  const auto tokenizer = parse_tokenizer(json.dump(), "t");
  for (const auto& t : {parse_tokenizer(json.dump(), "t"), parse_tokenizer(tokenizer->to_json(), "again")}) {
    EXPECT_EQ(t->encode("xyz"), (Ids{id}));
    EXPECT_EQ(t->encode("xyz xyz"), (Ids{id, id}));
    EXPECT_EQ(t->encode("axyz"), plain->encode("axyz"));
  }
}

// Decoding matches the Replace decoder of Hugging Face tokenizers. Code Llama has such tokens.
TEST(Spm, SpecialTokensDecodeWithSpacesForBlanks) {
  auto json = nlohmann::json::parse(load_tokenizer(kTextData + "spm.model")->to_json());
  const uint64_t id = json["model"]["vocab"].size();
  json["model"]["vocab"]["\u2581<PRE>"] = id;
  json["added_tokens"] = {{{"id", id}, {"content", "\u2581<PRE>"}, {"special", true}}};
  const auto tokenizer = parse_tokenizer(json.dump(), "t");
  const auto pre = static_cast<int32_t>(id);
  const std::vector<int32_t> ids = tokenizer->encode_special("the\u2581<PRE>king");
  EXPECT_EQ(std::ranges::count(ids, pre), 1);
  EXPECT_EQ(tokenizer->decode(ids), "the <PRE> king");
  EXPECT_EQ(tokenizer->token_bytes(pre), "\u2581<PRE>");
}

TEST(Spm, DecodesAsAStream) {
  const auto tokenizer = small();
  const std::string text = " a \xF0\x9F\x98\x80\xE4\xB8\xAD z";
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  Utf8Stream stream;
  std::string all;
  for (const int32_t id : ids) {
    const std::string part = stream.push(tokenizer->token_bytes(id));
    EXPECT_FALSE(first_invalid_utf8(part).has_value());
    all += part;
  }
  EXPECT_EQ(all + stream.flush(), " " + text);
}

TEST(Spm, AnyBytesAreEncoded) {
  const auto tokenizer = small();
  RandomStream random(8, RandomSite::test);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random.below(40), '\0');
    for (char& c : bytes)
      c = random.below(2) == 0 ? static_cast<char>(random.below(256)) : " ae\xE2\x96\x81"[random.below(6)];
    for (const int32_t id : tokenizer->encode(bytes))
      EXPECT_TRUE(id >= 0 && id < 600);
  }
}

// A text of one long piece uses a heap of all its symbols, and other texts are encoded word by word. Both
// algorithms take linear time.
TEST(Spm, LongTextsOfOneKind) {
  const auto tokenizer = small();
  for (const char* unit : {"a", " ", "\xE4\xB8\xAD", "the ", "\xE2\x96\x81"}) {
    std::string text;
    while (text.size() < 1 << 18)
      text += unit;
    EXPECT_GT(tokenizer->encode(text).size(), 100u);
  }
}

VocabData letters() {
  VocabData data{.model = "llama"};
  const auto add = [&](const char* text, float score, Type type) {
    data.tokens.emplace_back(text);
    data.scores.push_back(score);
    data.types.push_back(static_cast<int32_t>(type));
  };
  add("<unk>", 0, Type::unknown);
  add("<s>", 0, Type::control);
  add("\xE2\x96\x81", -9, Type::normal);
  add("a", -9, Type::normal);
  add("ab", -1, Type::normal);
  add("aba", -2, Type::normal);
  return data;
}

TEST(Spm, WithoutBytesUnknownCharactersAreOneToken) {
  const auto tokenizer = tokenizer_of(letters(), "t");
  EXPECT_EQ(tokenizer->encode("xyz a"), (Ids{2, 0, 2, 3}));
  EXPECT_EQ(tokenizer->special_ids().unk, 0);
  // b is not a token, but it is part of tokens.
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{2, 4}));
  EXPECT_EQ(tokenizer->encode("aba"), (Ids{2, 5}));
  EXPECT_EQ(tokenizer->encode("b"), (Ids{2, 0}));
}

TEST(Spm, EqualScoresMergeFromTheLeft) {
  VocabData data = letters();
  data.tokens.emplace_back("ba");
  data.scores.push_back(-1);
  data.types.push_back(1);
  EXPECT_EQ(tokenizer_of(data, "t")->encode("bab"), (Ids{2, 6, 0}));
  EXPECT_EQ(tokenizer_of(data, "t")->encode("ab"), (Ids{2, 4}));
}

TEST(Spm, UnusedPiecesAreTakenApart) {
  VocabData data = letters();
  data.types[5] = static_cast<int32_t>(Type::unused);
  EXPECT_EQ(tokenizer_of(data, "t")->encode("aba"), (Ids{2, 4, 3}));
  // A single character has no parts, so sentencepiece uses it even if it is unused.
  data.types[3] = static_cast<int32_t>(Type::unused);
  EXPECT_EQ(tokenizer_of(data, "t")->encode("a"), (Ids{2, 3}));
}

void expect_vocab_error(const std::function<void(VocabData&)>& change, std::initializer_list<Fact> facts) {
  VocabData data = small()->vocab_data();
  change(data);
  expect_message([&] { tokenizer_of(data, "m.gguf"); }, "m.gguf", facts);
}

TEST(Spm, RefusesVocabulariesThatContradictThemselves) {
  expect_vocab_error([](VocabData& d) { d.scores.clear(); }, {"SentencePiece"});
  expect_vocab_error([](VocabData& d) { d.scores[300] = std::numeric_limits<float>::quiet_NaN(); }, {300});
  expect_vocab_error([](VocabData& d) { d.tokens[300] = d.tokens[299]; }, {299, 300});
  expect_vocab_error([](VocabData& d) { d.tokens[300] = ""; }, {300});
  expect_vocab_error([](VocabData& d) { d.tokens[300] = "\xFF"; }, {300, "UTF-8"});
  expect_vocab_error([](VocabData& d) { d.tokens[299] = std::string(300, 'a'); }, {299, 300});
  expect_vocab_error([](VocabData& d) { d.tokens[3] = std::string(5000, 'a'); }, {3, 5000});
  for (const char* byte : {"<0x-1>", "<0x1>", "<0xGG>", "<0x0a>", "<0x100>", "0x00", "<0x 1>", "<0x0A"})
    expect_vocab_error([&](VocabData& d) { d.tokens[10] = byte; }, {10, "<0x00>", "<0xFF>", byte});
  expect_vocab_error([](VocabData& d) { d.types[10] = 1; }, {256, 255});
}

TEST(Spm, ManyPiecesTakeNoQuadraticScan) {
  VocabData data = letters();
  for (int i = 0; i < 100000; ++i) {
    data.tokens.push_back("a" + std::to_string(i));
    data.scores.push_back(static_cast<float>(-i));
    data.types.push_back(i % 2 == 0 ? 1 : 4);
  }
  EXPECT_EQ(tokenizer_of(data, "t")->vocab_size(), 100006);
}

// A protocol buffer file with one byte changed, removed or added must either load or be refused.
TEST(SpmModel, SurvivesMutation) {
  const std::string good = read_file(kTextData + "spm.model");
  RandomStream random(9, RandomSite::test);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bad = good;
    const size_t at = random.below(random.below(2) == 0 ? 64 : bad.size());
    if (round % 3 == 0) bad.resize(at);
    if (round % 3 == 1) bad[at] = static_cast<char>(random.below(256));
    if (round % 3 == 2) bad.insert(at, 1, static_cast<char>(random.below(256)));
    try {
      tokenizer_of(detail::parse_spm_model(bad, "m.model"), "m.model")->encode("the <tool> \xC3\xA9");
    } catch (const Error& error) {
      ++refused;
      EXPECT_TRUE(names(error.what(), {"m.model"}));
    }
  }
  EXPECT_GT(refused, 100);
}

std::string field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
}
std::string number(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}

TEST(SpmModel, SaysWhatItCannotRead) {
  const std::string piece = field(1, field(1, "a"));
  const auto expect = [](const std::string& bytes, std::initializer_list<Fact> facts) {
    expect_message([&] { tokenizer_of(detail::parse_spm_model(bytes, "m.model"), "m.model"); }, "m.model",
                   facts);
  };
  expect("", {"SentencePiece"});
  expect(piece, {"BPE", "unigram"});
  expect(piece + field(2, number(3, 4)), {"BPE", "char"});
  expect(piece + field(2, number(3, 9)), {"BPE"});
  expect(piece + field(2, number(3, 2)) + field(3, field(1, "nmt_nfkc") + field(2, "x")), {"nmt_nfkc"});
  expect(piece + field(3, field(1, "nmt_nfkc") + field(2, "x")), {"unigram", "nmt_nfkc"});  // in one message
  expect(piece + field(2, number(3, 2)) + field(3, number(5, 0)), {"escape_whitespaces"});
  expect(piece + field(2, number(3, 2) + "\x98\x02\x01"), {"byte_fallback", "true"});
  expect(piece + field(2, number(3, 2) + "\xC0\x01\x01"), {"treat_whitespace_as_suffix"});
  expect(field(1, field(1, "a") + number(3, 7)) + field(2, number(3, 2)), {0, 1, 6});
  expect(field(1, number(3, 2)) + field(2, number(3, 2)), {0});
  expect("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", {"SentencePiece"});
  expect("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", {"SentencePiece"});
  expect("\x0B", {"SentencePiece"});
  expect(std::string("\x02\x00", 2), {"SentencePiece"});
  expect(field(1, number(1, 5)), {"SentencePiece"});
}

TEST(SpmJson, SaysWhatItCannotRead) {
  VocabData data = small()->vocab_data();
  data.types[3] = static_cast<int32_t>(Type::control);
  const Json good = Json::parse(tokenizer_of(data, "m")->to_json());
  const auto expect = [&](const std::function<void(Json&)>& change, std::initializer_list<Fact> facts) {
    Json bad = good;
    change(bad);
    expect_message([&] { parse_tokenizer(bad.dump(), "t.json"); }, "t.json", facts);
  };
  expect(
      [](Json& j) {
        j["normalizer"]["normalizers"].push_back({{"type", "NFKC"}});
      },
      {"normalizer", "NFKC"});
  expect([](Json& j) { j["pre_tokenizer"] = {{"type", "Whitespace"}}; }, {"pre_tokenizer", "Whitespace"});
  expect([](Json& j) { j["decoder"]["decoders"].push_back({{"type", "CTC"}}); }, {"decoder", "CTC"});
  expect([](Json& j) { j["model"]["unk_token"] = "nosuch"; }, {"unk_token", "nosuch"});
  expect([](Json& j) { j["model"]["dropout"] = 0.5; }, {"dropout"});
  expect([](Json& j) { j["model"]["merges"].push_back({"nosuch", "x"}); }, {"nosuch"});
  expect([](Json& j) { j["model"]["merges"] = "x"; }, {"model.merges"});
  expect([](Json& j) { j["model"]["vocab"]["twice"] = 300; }, {300});
  expect([](Json& j) { j["model"]["vocab"]["far"] = uint64_t{1} << 40; }, {"far", uint64_t{1} << 40});
  expect([](Json& j) { j["model"]["vocab"].erase("<0x41>"); }, {256, 255});
  expect([](Json& j) { j["added_tokens"][0]["id"] = 300; }, {300});
}

}  // namespace
}  // namespace gpt

#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "support/error_of.h"
#include "support/temp_dir.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using test::error_of;
using test::Fact;
using test::names;
using Json = nlohmann::json;

void expect_error(const std::string& json, std::initializer_list<Fact> facts) {
  test::expect_message([&] { parse_tokenizer(json, "t.json"); }, "t.json", facts);
}

TEST(ByteTokenizer, RoundTripsRandomBytes) {
  const auto tokenizer = make_byte_tokenizer();
  RandomStream stream(1, RandomSite::test);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(stream.below(300), '\0');
    for (char& c : bytes)
      c = static_cast<char>(stream.below(256));
    const auto ids = tokenizer->encode(bytes);
    ASSERT_EQ(ids.size(), bytes.size());
    for (size_t i = 0; i < ids.size(); ++i)
      ASSERT_EQ(ids[i], static_cast<unsigned char>(bytes[i]));
    ASSERT_EQ(tokenizer->decode(ids), bytes);
  }
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->kind(), "byte");
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreErrors) {
  for (const auto& tokenizer : {make_byte_tokenizer(), make_char_tokenizer("abc")}) {
    const auto size = static_cast<int32_t>(tokenizer->vocab_size());
    EXPECT_THROW(tokenizer->token_bytes(-1), Error);
    EXPECT_THROW(tokenizer->token_bytes(size), Error);
    EXPECT_THROW(tokenizer->decode(std::vector<int32_t>{0, size}), Error);
    EXPECT_NO_THROW(tokenizer->token_bytes(size - 1));
  }
}

TEST(CharTokenizer, SortsDistinctCodePoints) {
  const auto tokenizer = make_char_tokenizer("b\xC3\xA4 a\nb\xF0\x9F\x98\x80");
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->encode("\n ab\xC3\xA4\xF0\x9F\x98\x80"), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{5, 0, 4}), "\xF0\x9F\x98\x80\n\xC3\xA4");
}

TEST(CharTokenizer, JoinsSeveralTexts) {
  const std::string_view texts[] = {"ca", "b"};
  EXPECT_EQ(make_char_tokenizer(texts)->encode("abc"), (std::vector<int32_t>{0, 1, 2}));
}

TEST(CharTokenizer, ErrorsNameCharacterAndPlace) {
  const auto tokenizer = make_char_tokenizer("abc");
  const std::string unknown = error_of([&] { tokenizer->encode("ab\xC3\xA4"); });
  EXPECT_TRUE(names(unknown, {"'\xC3\xA4'", "U+00E4", "byte 2"}));
  const std::string invalid = error_of([&] { tokenizer->encode("ab\xFF"); });
  EXPECT_TRUE(names(invalid, {"byte 2", "0xff", "`tokenizer` byte"}));
  EXPECT_THROW(make_char_tokenizer("a\xFF"), Error);
  EXPECT_THROW(make_char_tokenizer(""), Error);
}

TEST(TokenizerJson, ByteRoundTrip) {
  const auto loaded = parse_tokenizer(make_byte_tokenizer()->to_json(), "t.json");
  EXPECT_EQ(loaded->kind(), "byte");
  EXPECT_EQ(loaded->encode("\xFFz"), (std::vector<int32_t>{255, 122}));
}

TEST(TokenizerJson, CharRoundTripKeepsIds) {
  std::string text;
  for (char32_t code = 0; code < 0x3000; ++code)
    append_utf8(text, code);
  const auto original = make_char_tokenizer(text);
  const auto loaded = parse_tokenizer(original->to_json(), "t.json");
  EXPECT_EQ(loaded->kind(), "char");
  EXPECT_EQ(loaded->vocab_size(), original->vocab_size());
  EXPECT_EQ(loaded->encode(text), original->encode(text));
  EXPECT_EQ(loaded->to_json(), original->to_json());
}

TEST(TokenizerJson, RejectsMalformedFiles) {
  expect_error("", {"JSON", "line 1", "column 1"});
  expect_error("{\"model\": ", {"JSON", "line 1", "column 11"});
  expect_error("[]", {"model"});
  expect_error("{\"model\": 3}", {"model"});
  expect_error("{\"n\":1,\"n\":2}", {"JSON", "n"});
  expect_error(std::string(100000, '['), {"JSON", "line 1", "column 33", 32});
  std::string many = "[0";
  for (int i = 0; i < 8'000'000; ++i)
    many += ",0";
  expect_error(many + "]", {"JSON", "line 1"});
  expect_error("{\"model\":{\"type\":\"\xFF\"}}", {"JSON", "line 1", "column 19"});
}

TEST(TokenizerJson, RejectsOtherKindsByName) {
  const Json good = Json::parse(make_char_tokenizer("abc")->to_json());
  const auto changed = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return json.dump();
  };
  expect_error(changed("/model/type", "WordPiece"), {"WordPiece"});
  expect_error(changed("/model/merges", Json::array({Json::array({"a", "b"})})), {"decoder"});
  expect_error(changed("/model/byte_fallback", true), {"SentencePiece"});
  expect_error(changed("/model/unk_token", "a"), {"unk_token"});
  expect_error(changed("/normalizer", {{"type", "NFC"}}), {"normalizer"});
  expect_error(changed("/added_tokens", Json::array({{{"id", 3}}})), {"added_tokens"});
  expect_error(changed("/pre_tokenizer", {{"type", "Whitespace"}}), {"pre_tokenizer"});
  expect_error(changed("/decoder", nullptr), {"decoder"});
  expect_error(changed("/model/vocab/ab", 3), {"ab"});
}

TEST(TokenizerJson, RejectsBadIds) {
  const Json good = Json::parse(make_char_tokenizer("abc")->to_json());
  for (const Json& id : {Json(3), Json(-1), Json(1.5), Json("1"), Json(uint64_t{1} << 63), Json(nullptr)}) {
    Json json = good;
    json["model"]["vocab"]["c"] = id;
    expect_error(json.dump(), {"\"c\"", 0, 2});
  }
  Json twice = good;
  twice["model"]["vocab"]["c"] = 0;
  expect_error(twice.dump(), {0});
  Json empty = good;
  empty["model"]["vocab"] = Json::object();
  expect_error(empty.dump(), {"model.vocab"});
}

TEST(TokenizerJson, ByteLevelIdsMustBeTheByteValues) {
  Json json = Json::parse(make_byte_tokenizer()->to_json());
  std::swap(json["model"]["vocab"]["a"], json["model"]["vocab"]["b"]);
  expect_error(json.dump(), {"t.json"});
}

// A damaged file either loads or causes a gpt::Error. A tokenizer that loads must work.
TEST(TokenizerJson, SurvivesMutation) {
  const std::string good = make_char_tokenizer("abc \n\xC3\xA4")->to_json();
  RandomStream stream(2, RandomSite::test);
  int loaded = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (uint64_t i = 0; i <= stream.below(3); ++i) {
      bad[stream.below(bad.size())] = static_cast<char>(stream.below(256));
    }
    if (stream.below(4) == 0) bad.resize(stream.below(bad.size()));
    try {
      const auto tokenizer = parse_tokenizer(bad, "t.json");
      ++loaded;
      for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
        ASSERT_EQ(tokenizer->encode(tokenizer->token_bytes(id)), std::vector<int32_t>{id});
      }
    } catch (const Error&) {
    }
  }
  EXPECT_GT(loaded, 0);
}

class TokenizerFiles : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name) << content;
  }
  test::TempDir temporary_;
  std::string folder_ = temporary_.path();
};

TEST_F(TokenizerFiles, LoadsFileOrFolder) {
  write("tokenizer.json", make_char_tokenizer("xyz")->to_json());
  EXPECT_EQ(load_tokenizer(folder_)->vocab_size(), 3);
  EXPECT_EQ(load_tokenizer(folder_ + "/tokenizer.json")->vocab_size(), 3);
}

TEST_F(TokenizerFiles, SaysWhatIsMissing) {
  EXPECT_TRUE(names(error_of([&] { load_tokenizer(folder_); }),
                    {folder_, "tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model"}));
  EXPECT_TRUE(names(error_of([&] { load_tokenizer(folder_ + "/none"); }), {folder_ + "/none"}));
  write("vocab.json", "{}");
  EXPECT_TRUE(names(error_of([&] { load_tokenizer(folder_); }), {folder_, "merges.txt"}));
}

}  // namespace
}  // namespace gpt

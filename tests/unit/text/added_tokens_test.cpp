#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/temp_dir.h"
#include "text/folder_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/spm_model.h"
#include "text/tokenizer_facts.h"
#include "text/tokenizer_kinds.h"
#include "text/vocab_data.h"
#include "unit/text/golden_rows.h"

// Runs the random cases of scripts/golden/make_added_tokens.py.
namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::ordered_json;
using test::kTextData;

// Reads JSON lines and keeps the order of keys, because tokens are numbered in this order.
std::vector<Json> rows_of(const std::string& name) {
  std::ifstream file(kTextData + name);
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);)
    rows.push_back(Json::parse(line));
  return rows;
}

void expect_cases(const Tokenizer& tokenizer, const Json& row, const std::string& what) {
  for (const Json& c : row["cases"]) {
    const std::string text = c[0];
    EXPECT_EQ(tokenizer.encode(text), c[1].get<Ids>()) << what << c;
    EXPECT_EQ(tokenizer.encode_special(text), (c[2].is_null() ? c[1] : c[2]).get<Ids>()) << what << c;
    if (c[4].is_null()) continue;
    EXPECT_EQ(tokenizer.decode(c[3].get<Ids>()), c[4].get<std::string>()) << what << c;
  }
}

TEST(AddedTokens, AreFoundAsTokenizersFindsThem) {
  const std::vector<Json> rows = rows_of("added_tokens.jsonl");
  EXPECT_EQ(rows.size(), 132u);
  for (const Json& row : rows) {
    const auto tokenizer = parse_tokenizer(row["tokenizer"].dump(), "t");
    expect_cases(*tokenizer, row, row["tokenizer"]["added_tokens"].dump());
    if (::testing::Test::HasFailure()) return;
    const auto again = parse_tokenizer(tokenizer->to_json(), "again");
    expect_cases(*again, row, "again: " + row["tokenizer"]["added_tokens"].dump());
  }
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(AddedTokens, SentencePieceWithAnyOptions) {
  const std::vector<Json> rows = rows_of("spm_options.jsonl");
  EXPECT_EQ(rows.size(), 24u);
  for (const Json& row : rows) {
    const auto tokenizer = tokenizer_of(detail::parse_spm_model(bytes_of_hex(row["model"]), "m"), "m");
    const auto json = parse_tokenizer(tokenizer->to_json(), "json");
    // tokenizer.json matches user-defined tokens before spaces are replaced.
    const Tokenizer& second = row["json"] ? *json : *tokenizer;
    for (const Json& c : row["cases"]) {
      EXPECT_EQ(tokenizer->encode(c[0].get<std::string>()), c[1].get<Ids>()) << c;
      EXPECT_EQ(second.encode(c[0].get<std::string>()), c[1].get<Ids>()) << c;
      if (c[3].is_null()) continue;
      EXPECT_EQ(tokenizer->decode(c[2].get<Ids>()), c[3].get<std::string>()) << c;
    }
  }
}

void write_base(const test::TempDir& dir, const std::string& base, const Json& bpe,
                const Json& more = Json::object()) {
  if (base == "spm") std::filesystem::copy_file(kTextData + "spm.model", dir.file("tokenizer.model"));
  if (base == "json") test::write_plain_file(dir.file("tokenizer.json"), bpe.dump());
  if (base != "vocab") return;
  Json vocab = bpe["model"]["vocab"];
  vocab.update(more);
  test::write_plain_file(dir.file("vocab.json"), vocab.dump());
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : bpe["model"]["merges"])
    merges += (merge.is_string() ? merge.get<std::string>()
                                 : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
              "\n";
  test::write_plain_file(dir.file("merges.txt"), merges);
}

// Returns the tokens that are added around an empty text.
Ids ends_of(const Tokenizer& tokenizer) {
  const SpecialIds ids = tokenizer.special_ids();
  Ids ends;
  if (ids.add_bos.value_or(false) && ids.bos >= 0) ends.push_back(static_cast<int32_t>(ids.bos));
  if (ids.add_eos.value_or(false) && ids.eos >= 0) ends.push_back(static_cast<int32_t>(ids.eos));
  return ends;
}

TEST(AddedTokens, OfFoldersAreThoseOfTransformers) {
  const Json bpe = Json::parse(std::ifstream(kTextData + "bpe.tokenizer.json"));
  const std::vector<Json> rows = rows_of("folder_tokens.jsonl");
  EXPECT_EQ(rows.size(), 164u);
  for (const Json& row : rows) {
    const test::TempDir dir;
    write_base(dir, row["base"], bpe, row["vocab"]);
    for (const auto& [name, content] : row["files"].items())
      test::write_plain_file(dir.file(name), content.dump());
    const auto tokenizer = load_tokenizer(dir.path());
    const std::string what = row["base"].get<std::string>() + row["files"].dump();
    EXPECT_EQ(tokenizer->vocab_size(), row["size"].get<int64_t>()) << what;
    Json expected = Json::array(), found = Json::array();
    const int64_t first =
        // Control tokens of a SentencePiece model always stay special.
        row["base"] == "spm" ? 600 : 0;
    for (const Json& token : row["added"]) {
      if (token[0] >= first) expected.push_back({token[0], token[1], token[2]});
    }
    for (const TokenizerFacts::Added& token : tokenizer_facts(*tokenizer, 0).added) {
      if (token.id >= first) found.push_back({token.id, token.text, token.special});
    }
    EXPECT_EQ(found, expected) << what;
    for (const Json& c : row["cases"])
      EXPECT_EQ(tokenizer->encode_special(c[0].get<std::string>()), c[1].get<Ids>()) << what << c;
    EXPECT_EQ(ends_of(*tokenizer), row["ends"].get<Ids>()) << what;
    const auto again = parse_tokenizer(tokenizer->to_json(), "again");
    for (const Json& c : row["cases"])
      EXPECT_EQ(again->encode_special(c[0].get<std::string>()), c[1].get<Ids>()) << "again " << what << c;
    // A GGUF file also contains all these tokens.
    const VocabData data = tokenizer->vocab_data();
    for (const Json& token : row["added"])
      EXPECT_EQ(data.tokens[token[0].get<size_t>()], token[1]) << what;
  }
}

// For this class, transformers inserts a space before the text. For other classes it does not.
TEST(AddedTokens, FoldersOfGpt2MayPutASpaceInFront) {
  const Json bpe = Json::parse(std::ifstream(kTextData + "bpe.tokenizer.json"));
  for (const char* tokenizer_class : {"GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast"}) {
    const test::TempDir dir;
    const bool is_gpt2 = std::string(tokenizer_class).starts_with("GPT2");
    write_base(dir, is_gpt2 ? "vocab" : "json", bpe);
    const Json config = {{"tokenizer_class", tokenizer_class}, {"add_prefix_space", true}};
    test::write_plain_file(dir.file("tokenizer_config.json"), config.dump());
    if (is_gpt2) {
      test::expect_message([&] { load_tokenizer(dir.path()); }, dir.path(), {"add_prefix_space"});
    } else {
      EXPECT_EQ(load_tokenizer(dir.path())->kind(), "bpe");
    }
  }
}

// Without tokenizer.json, the tokenizer class determines how text is split.
TEST(AddedTokens, FoldersWithVocabAndMergesAreSplitAsTheirClassDoes) {
  const Json bpe = Json::parse(std::ifstream(kTextData + "bpe.tokenizer.json"));
  Json as_gpt2 = bpe, as_qwen = bpe;
  as_gpt2["pre_tokenizer"] = detail::byte_level_json(true);
  as_qwen["normalizer"] = {{"type", "NFC"}};
  as_qwen["pre_tokenizer"] = detail::split_steps_json({{.pattern = SplitPattern::qwen2}});
  struct Row {
    const char *tokenizer_class, *model_type;
    const Json* expected;  // nullptr: refused
  };
  const Row rows[] = {
      {"", "", &as_gpt2},
      {"GPT2TokenizerFast", "llama", &as_gpt2},
      {"GPT2Tokenizer", "qwen3", &as_gpt2},
      {"CodeGenTokenizer", "codegen", &as_gpt2},
      {"WhisperTokenizer", "whisper", &as_gpt2},
      {"", "opt", &as_gpt2},
      {"Qwen2Tokenizer", "qwen2", &as_qwen},
      {"Qwen2TokenizerFast", "", &as_qwen},
      {"GPT2Tokenizer", "qwen2", &as_qwen},
      {"", "qwen2", &as_qwen},
      {"", "qwen3", &as_qwen},
      {"GPTNeoXTokenizer", "gpt_neox", nullptr},
      {"RobertaTokenizer", "gpt2", nullptr},
      {"PreTrainedTokenizerFast", "llama", nullptr},
      {"CLIPTokenizer", "", nullptr},
      {"", "llama", nullptr},
      {"GPT2Tokenizer", "mistral", nullptr},
  };
  const std::string text = "the cats are 1234 years old\n\n!cafe\xCC\x81 'LL";
  for (const Row& row : rows) {
    const test::TempDir dir;
    write_base(dir, "vocab", bpe);
    test::write_plain_file(dir.file("tokenizer_config.json"),
                           Json{{"tokenizer_class", row.tokenizer_class}}.dump());
    test::write_plain_file(dir.file("config.json"), Json{{"model_type", row.model_type}}.dump());
    const std::string what = fmt::format("{} {}", row.tokenizer_class, row.model_type);
    if (row.expected == nullptr) {
      std::string named = row.tokenizer_class;
      if (named.ends_with("Fast")) named.resize(named.size() - 4);
      if (named.empty() || row.model_type == std::string("mistral")) named = row.model_type;
      test::expect_message([&] { load_tokenizer(dir.path()); }, dir.path(), {named, "tokenizer.json"});
    } else {
      EXPECT_EQ(load_tokenizer(dir.path())->encode(text),
                parse_tokenizer(row.expected->dump(), "expected")->encode(text))
          << what;
    }
  }
  EXPECT_NE(parse_tokenizer(as_gpt2.dump(), "gpt2")->encode(text),
            parse_tokenizer(as_qwen.dump(), "qwen2")->encode(text));
}

TEST(AddedTokens, OfFoldersWithoutEmbeddingsAreLeftOut) {
  const test::TempDir dir;
  write_base(dir, "json", Json::parse(std::ifstream(kTextData + "bpe.tokenizer.json")));
  const int64_t size = load_tokenizer(dir.path())->vocab_size();
  const Json config = {{"extra_special_tokens", {"<|role|>", "<|end|>", "<|more|>"}}, {"pad_token", "<pad>"}};
  test::write_plain_file(dir.file("tokenizer_config.json"), config.dump());
  EXPECT_EQ(load_tokenizer(dir.path())->vocab_size(), size + 3);
  const auto tokenizer = load_model_tokenizer(dir.path(), size + 2);
  EXPECT_EQ(tokenizer->vocab_size(), size + 2);
  EXPECT_EQ(tokenizer->encode_special("<pad><|role|>"),
            (Ids{static_cast<int32_t>(size), static_cast<int32_t>(size) + 1}));
  EXPECT_GT(tokenizer->encode_special("<|more|>").size(), 1u);
}

TEST(AddedTokens, OfDamagedFoldersAreErrors) {
  const test::TempDir dir;
  for (const char* config :
       {"[]", "{", R"({"added_tokens_decoder": {"x": {"content": "a"}}})",
        R"({"added_tokens_decoder": {"-1": {"content": "a"}}})", R"({"added_tokens_decoder": {"1": "a"}})",
        R"({"added_tokens_decoder": {"99999999999": {"content": "a"}}})"}) {
    test::write_plain_file(dir.file("tokenizer_config.json"), config);
    EXPECT_THROW(detail::read_folder_tokens(dir.path(), detail::VocabularyFile::json), Error) << config;
  }
}

}  // namespace
}  // namespace gpt

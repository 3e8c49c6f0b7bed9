#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "grammar/grammar_cache.h"
#include "grammar/grammar_constraint.h"
#include "grammar/vocabulary.h"
#include "support/error_of.h"
#include "support/names.h"
#include "text/tokenizer.h"
#include "unit/grammar/schema_validator.h"

namespace gpt::grammar {
namespace {

using test::error_of;

constexpr const char* kData = GPT_SOURCE_DIR "/tests/data/";

// Returns single bytes and tokens that cross the boundaries of grammar rules in many ways.
std::vector<std::string> small_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* piece :
       {"{\"",      "\":", "\": ", "\",\"", "\", \"", "\"}",   "\"}]",         "}}",
        "]]",       "],[", "[[",   "[{",    "true",   "false", "null,",        "12",
        "3.5",      "0.",  "e-",   "-1",    "name",   " name", "age",          "\"name\": \"",
        "\"age\":", "abc", "a\"",  "b\\",   "\\n",    "\\u00", "\xC3\xA9",     "\xA9\"",
        "\xF0\x9F", "1,",  "1]",   "1}",    "aa",     "ab",    "ba",           "bb",
        "aab",      "(((", ")))",  "()",    "name",   "",      "{\"name\":\"", ",\"age\":"})
    tokens.emplace_back(piece);
  return tokens;
}

std::shared_ptr<const Vocabulary> small_vocabulary() {
  return std::make_shared<const Vocabulary>(small_tokens());
}

bool has_bit(std::span<const uint64_t> words, int32_t id) {
  return (words[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

std::vector<int32_t> ids_of(std::span<const uint64_t> words, int64_t size) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size; ++id)
    if (has_bit(words, id)) ids.push_back(id);
  return ids;
}

struct Walk {
  std::string text;
  bool ended = false;  // by an end id, or because nothing can follow
  int64_t tokens = 0;  // includes the end id
};

// Samples allowed tokens and occasionally rolls some back. Compares each mask with a byte-by-byte check of
// every token against the grammar.
class Walker {
 public:
  static constexpr int32_t kEnd = 0;  // a token that no test needs: the byte 0

  Walker(GrammarPtr grammar, std::shared_ptr<const Vocabulary> vocabulary, uint64_t seed)
      : grammar_(std::move(grammar)),
        vocabulary_(std::move(vocabulary)),
        masks_(std::make_shared<TokenMasks>(grammar_, vocabulary_)),
        random_(seed, RandomSite::test),
        words_(static_cast<size_t>(vocabulary_->size() + 63) / 64) {}

  const std::shared_ptr<TokenMasks>& masks() const { return masks_; }

  Walk walk(int64_t budget, bool compare, int64_t steps = 1 << 20) {
    Walk result;
    std::unique_ptr<Constraint> constraint = make_constraint(masks_, budget);
    std::vector<int32_t> ids;
    while (result.tokens < std::min(budget, steps) && !constraint->complete()) {
      constraint->allow(budget - result.tokens, std::span(&kEnd, 1), words_);
      if (compare) compare_mask(result.text, budget - result.tokens, *constraint);
      const std::vector<int32_t> allowed = ids_of(words_, vocabulary_->size());
      if (allowed.empty()) break;
      const int32_t id = allowed[random_.below(allowed.size())];
      ++result.tokens;
      if (id == kEnd) {
        result.ended = true;
        break;
      }
      if (random_.below(4) == 0) try_another(*constraint, allowed, id);
      constraint->accept(id);
      result.text += vocabulary_->bytes_of(id);
    }
    result.ended |= constraint->complete();
    return result;
  }

 private:
  void try_another(Constraint& constraint, const std::vector<int32_t>& allowed, int32_t chosen) {
    const int32_t other = allowed[random_.below(allowed.size())];
    if (other == kEnd) return;
    const std::unique_ptr<Constraint> copy = constraint.clone();
    constraint.accept(other);
    constraint.rollback(1);
    copy->accept(chosen);
  }

  // With a large budget, the mask allows exactly the tokens that fit the grammar. With a small budget, it
  // allows a subset.
  void compare_mask(const std::string& text, int64_t remaining, const Constraint& constraint) const {
    const bool enough = remaining > 100000;
    EXPECT_EQ(constraint.may_end(), grammar_->matches(text));
    EXPECT_EQ(has_bit(words_, kEnd), grammar_->matches(text)) << text;
    for (int32_t id = 1; id < vocabulary_->size(); ++id) {
      const std::string bytes(vocabulary_->bytes_of(id));
      const bool fits = !bytes.empty() && grammar_->begins(text + bytes);
      ASSERT_TRUE(fits || !has_bit(words_, id)) << "'" << bytes << "' behind '" << text << "'";
      ASSERT_TRUE(!fits || !enough || has_bit(words_, id)) << "'" << bytes << "' behind '" << text << "'";
    }
  }

  GrammarPtr grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::shared_ptr<TokenMasks> masks_;
  RandomStream random_;
  std::vector<uint64_t> words_;
};

const std::vector<std::string>& schemas() {
  static const std::vector<std::string> all = {
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false})",
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"enum":["a","ab","b"]},"maxItems":3}},"required":["age"]})",
      R"({"type":"array","items":{"type":"number","exclusiveMinimum":-1.5,"maximum":12.25},"minItems":2,"maxItems":4})",
      R"({"type":"array","items":{"type":["integer","null","boolean"]}})",
      R"({"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["name","next"]}},"$ref":"#/$defs/node"})",
      R"({"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}},"$ref":"#/$defs/t"})",
      R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"]},{"type":"object","properties":{"k":{"const":"b"},"w":{"type":"null"}},"required":["k"]}]})",
      R"({"type":"object","properties":{"a":{"type":"boolean"}},"additionalProperties":{"type":"integer","multipleOf":3}})",
      R"({"prefixItems":[{"type":"string","minLength":2},{"type":"number"}],"items":{"type":"null"},"minItems":1})",
      R"({"type":"object"})",
      R"({"type":"object","additionalProperties":{"type":"number","minimum":0},"propertyNames":{"pattern":"^[a-z]+$","maxLength":3}})",
      R"({"type":"array","uniqueItems":true,"items":{"enum":["a",1,null,12345678901234567890123]},"minItems":1})",
      R"({"type":"array","items":{"type":"string","format":"email","maxLength":30},"minItems":1,"maxItems":2})",
      R"({"anyOf":[{"type":"string","minLength":3},{"type":"integer","minimum":100,"maximum":1000},{"enum":[null,[1,2],{"a":"b"}]}]})",
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"},"a":{"minimum":3,"maximum":30}}}]})",
  };
  return all;
}

TEST(Masks, AreWhatEveryTokenSays) {
  const auto vocabulary = small_vocabulary();
  std::vector<GrammarPtr> grammars;
  for (const std::string& schema : schemas())
    grammars.push_back(compile_json_schema_text(schema));
  grammars.push_back(compile_json_object());
  for (const char* gbnf :
       {"root ::= \"(\" root \")\" root | \"\"", "root ::= [^\"]* \"\\\"\" (\"a\" | \"ab\")*",
        "root ::= a b\na ::= \"a\"* b?\nb ::= \"b\" a", "root ::= [0-9]+ (\",\" [0-9]+)* \"]\"?"})
    grammars.push_back(compile_gbnf(gbnf));
  for (size_t g = 0; g < grammars.size(); ++g) {
    SCOPED_TRACE(g);
    Walker walker(grammars[g], vocabulary, g);
    for (int round = 0; round < 3; ++round)
      walker.walk(round < 2 ? 1 << 20 : 30, true, 20);
  }
}

TEST(Masks, OfRealTokenizers) {
  for (const char* file : {"bpe.tokenizer.json", "spm.model", "gpt1.tokenizer.json", "chat.tokenizer.json",
                           "ranks.nanochat.tiktoken"}) {
    SCOPED_TRACE(file);
    const auto tokenizer = load_tokenizer(std::string(kData) + file);
    const auto vocabulary = make_vocabulary(*tokenizer, tokenizer->vocab_size());
    ASSERT_EQ(vocabulary->size(), tokenizer->vocab_size());
    EXPECT_GT(vocabulary->longest(), 2u);
    const bool letters = tokenizer->kind() == "gpt1";  // has no braces, and words end with a space
    Walker walker(
        letters ? compile_gbnf("root ::= ([a-z]+ [,.]? \" \"){3,}") : compile_json_schema_text(schemas()[1]),
        vocabulary, 5);
    for (int round = 0; round < 4; ++round)
      walker.walk(40, true);
  }
}

// The names of special tokens are not part of the text.
TEST(Vocabulary, LeavesOutSpecialTokens) {
  const auto tokenizer = load_tokenizer(std::string(kData) + "chat.tokenizer.json");
  const auto vocabulary = make_vocabulary(*tokenizer, tokenizer->vocab_size());
  int special = 0;
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    const std::string bytes = tokenizer->token_bytes(id);
    if (tokenizer->encode_special(bytes) == std::vector{id} && tokenizer->encode(bytes) != std::vector{id}) {
      EXPECT_TRUE(vocabulary->bytes_of(id).empty()) << bytes;
      ++special;
    } else {
      EXPECT_EQ(vocabulary->bytes_of(id), bytes);
    }
  }
  EXPECT_GT(special, 0);
}

TEST(Vocabulary, IsATreeOfAllTokens) {
  const auto vocabulary = small_vocabulary();
  const auto nodes = vocabulary->nodes();
  int64_t found = 0;
  for (int32_t node = 0; node < std::ssize(nodes); ++node)
    found += std::ssize(vocabulary->ids_at(node));
  EXPECT_EQ(found, vocabulary->size() - 1);  // one has no bytes
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    int32_t node = 0;
    for (const char c : vocabulary->bytes_of(id))
      node = vocabulary->child(node, static_cast<uint8_t>(c));
    const auto ids = vocabulary->ids_at(node);
    EXPECT_EQ(std::ranges::count(ids, id), vocabulary->bytes_of(id).empty() ? 0 : 1);
  }
}

// A model may have fewer ids than its tokenizer.
TEST(Vocabulary, EndsWhereTheModelDoes) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(make_vocabulary(*tokenizer, 100)->size(), 100);
  EXPECT_EQ(make_vocabulary(*tokenizer, 1000)->size(), 256);
}

// Parses a response and keeps the digits of its integers. A response may have duplicate keys.
nlohmann::ordered_json value_of(const std::string& text) {
  try {
    return parse_json_document(text, "answer");
  } catch (const Error&) {
    return nlohmann::ordered_json::parse(text, nullptr, false);
  }
}

// With every sufficient budget, every response is complete and valid.
TEST(Constraint, AnswersEndWithinTheBudgetAndAreValid) {
  const auto vocabulary = small_vocabulary();
  int64_t answers = 0;
  for (size_t i = 0; i < schemas().size(); ++i) {
    SCOPED_TRACE(schemas()[i]);
    const auto schema = parse_json_document(schemas()[i], "schema");
    Walker walker(compile_json_schema(schema), vocabulary, i);
    const auto certain = GrammarConstraint(walker.masks()).certain_budget();
    ASSERT_TRUE(certain.has_value());
    EXPECT_GE(*certain, walker.masks()->shortest());
    for (int64_t extra = 0; extra < 40; ++extra) {
      for (int sample = 0; sample < 4; ++sample, ++answers) {
        const Walk walk = walker.walk(*certain + extra, false);
        ASSERT_TRUE(walk.ended) << walk.text << " with " << *certain << " + " << extra;
        const nlohmann::ordered_json value = value_of(walk.text);
        ASSERT_FALSE(value.is_discarded()) << walk.text;
        EXPECT_TRUE(SchemaValidator(schema).valid(value)) << walk.text;
      }
    }
  }
  EXPECT_EQ(answers, std::ssize(schemas()) * 160);
}

// The minimum number of tokens of a response is a sufficient budget, and one token less is refused.
TEST(Constraint, RefusesABudgetThatNoAnswerFits) {
  const auto vocabulary = small_vocabulary();
  for (const auto& [schema, shortest] : std::vector<std::pair<std::string, int64_t>>{
           {R"({"const":null})", 4},      // single bytes: "null," does not fit
           {R"({"type":"boolean"})", 1},  // true
           {R"({"enum":["name"]})", 3},   // " name "
           {R"({"type":"array"})", 2},    // [ ]
           {R"({"properties":{"name":{"enum":["abc"]},"age":{"enum":[1]}},"required":["name","age"]})",
            5},  // {"name":" abc " ,"age": 1}
           {R"({"type":"integer"})", 1},
       }) {
    SCOPED_TRACE(schema);
    const auto masks = std::make_shared<TokenMasks>(compile_json_schema_text(schema), vocabulary);
    EXPECT_EQ(masks->shortest(), shortest);
    EXPECT_NE(make_constraint(masks, shortest), nullptr);
    if (shortest > 1) {
      EXPECT_TRUE(test::refused_parameter([&, less = shortest - 1] { make_constraint(masks, less); },
                                          "max_tokens", {shortest, shortest - 1}));
    }
  }
}

// Compares the minimum number of tokens with an exhaustive search of all responses.
TEST(Constraint, TheShortestAnswerIsFound) {
  const std::vector<std::string> tokens = {"a", "b", "ab", "bba", "aabb", "bab"};
  const auto vocabulary = std::make_shared<const Vocabulary>(tokens);
  for (const char* pattern :
       {"a{7}b", "(ab){5}", "(aabb|bab){3}a?", "[ab]{11}", "b+a{3}", "(a|bb){4}ab", "a?b?"}) {
    SCOPED_TRACE(pattern);
    const GrammarPtr grammar = compile_regex(pattern);
    std::vector<std::string> texts{""};
    int64_t count = 0;
    while (std::ranges::none_of(texts, [&](const std::string& text) { return grammar->matches(text); })) {
      std::vector<std::string> longer;
      for (const std::string& text : texts)
        for (const std::string& token : tokens)
          if (grammar->begins(text + token)) longer.push_back(text + token);
      std::ranges::sort(longer);
      longer.erase(std::unique(longer.begin(), longer.end()), longer.end());
      texts = std::move(longer);
      ++count;
    }
    EXPECT_EQ(TokenMasks(grammar, vocabulary).shortest(), count);
  }
}

TEST(Constraint, RefusesAVocabularyWithoutTheCharacters) {
  const auto vocabulary = std::make_shared<const Vocabulary>(std::vector<std::string>{"a", "b"});
  const auto masks = std::make_shared<TokenMasks>(compile_json_object(), vocabulary);
  EXPECT_TRUE(test::refused([&] { make_constraint(masks, 100); }, "grammar"));
}

// Without an end-of-sequence token, a response ends with its last token.
TEST(Constraint, NeedsNoEndWhereNothingCanFollow) {
  const auto vocabulary = small_vocabulary();
  const auto masks = std::make_shared<TokenMasks>(compile_regex("a{3}|b"), vocabulary);
  GrammarConstraint constraint(masks);
  std::vector<uint64_t> words(static_cast<size_t>(vocabulary->size() + 63) / 64);
  const auto texts = [&](int64_t remaining) {
    constraint.allow(remaining, {}, words);
    std::string all;
    for (const int32_t id : ids_of(words, vocabulary->size()))
      all += std::string(vocabulary->bytes_of(id)) + " ";
    return all;
  };
  EXPECT_EQ(texts(1), "b ");
  EXPECT_EQ(texts(2), "a b aa ");
  EXPECT_EQ(texts(9), "a b aa ");
  constraint.accept('a');
  EXPECT_EQ(texts(1), "aa ");
  EXPECT_EQ(texts(2), "a aa ");
  constraint.accept('a');
  EXPECT_FALSE(constraint.may_end());
  EXPECT_NE(error_of([&] { constraint.accept('b'); }), "no error");
  constraint.accept('a');
  EXPECT_TRUE(constraint.complete());
  constraint.rollback(2);
  EXPECT_EQ(texts(2), "a aa ");
}

// For deeply nested responses, stack positions are discarded and computed again.
TEST(Constraint, KeepsItsMemorySmall) {
  const auto vocabulary = small_vocabulary();
  const auto masks =
      std::make_shared<TokenMasks>(compile_gbnf("root ::= \"(\" root \")\" | \"a\""), vocabulary);
  GrammarConstraint constraint(masks);
  std::vector<uint64_t> words(static_cast<size_t>(vocabulary->size() + 63) / 64);
  constexpr int kDepth = 20000;
  const int32_t end = 0;
  for (int i = 0; i < kDepth; ++i) {
    constraint.allow(1 << 20, std::span(&end, 1), words);
    ASSERT_TRUE(has_bit(words, '('));
    constraint.accept('(');
  }
  constraint.accept('a');
  for (int i = 0; i < kDepth; ++i) {
    constraint.allow(kDepth - i + 1, std::span(&end, 1), words);
    ASSERT_TRUE(has_bit(words, ')'));
    ASSERT_FALSE(constraint.may_end());
    constraint.accept(')');
  }
  EXPECT_TRUE(constraint.complete());
}

// The number of positions is large enough that some masks are discarded. Compares masks with those of a copy
// that has none yet.
TEST(Constraint, FindsAgainWhatItGaveUp) {
  std::vector<std::string> tokens = small_tokens();
  for (int i = 0; i < 26 * 26 * 26; ++i)
    tokens.push_back({static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26 % 26),
                      static_cast<char>('a' + i / 676)});
  const auto vocabulary = std::make_shared<const Vocabulary>(tokens);
  const auto masks = std::make_shared<TokenMasks>(
      compile_gbnf("root ::= \"(\" (word \",\")* root? \")\"\nword ::= [a-z]+"), vocabulary);
  GrammarConstraint constraint(masks);
  const size_t size = static_cast<size_t>(vocabulary->size() + 63) / 64;
  std::vector<uint64_t> words(size), expected(size);
  const int32_t end = 0;
  const std::string_view level = "(a,";
  constexpr size_t kTokens = 3 * 1000;
  for (size_t i = 0; i < 2 * kTokens; ++i) {
    const int64_t remaining = i % 7 == 0 ? static_cast<int64_t>(kTokens) : 1 << 20;
    constraint.allow(remaining, std::span(&end, 1), words);
    if (i % 100 < 2) {
      constraint.clone()->allow(remaining, std::span(&end, 1), expected);
      ASSERT_EQ(words, expected) << i;
    }
    if (constraint.complete()) return;
    constraint.accept(i < kTokens ? level[i % level.size()] : ')');
  }
  FAIL() << "the text did not end";
}

TEST(GrammarCache, KeepsTheLastGrammars) {
  using Kind = GrammarSource::Kind;
  GrammarCache cache(small_vocabulary(), {.grammars = 2});
  const auto a = cache.masks({Kind::regex, "a"});
  const auto b = cache.masks({Kind::gbnf, "root ::= \"b\""});
  EXPECT_TRUE(b->grammar().matches("b"));
  EXPECT_EQ(cache.masks({Kind::regex, "a"}), a);
  EXPECT_TRUE(cache.masks({Kind::json_schema, "{\"const\":1}"})->grammar().matches("1"));
  EXPECT_EQ(cache.masks({Kind::regex, "a"}), a);
  EXPECT_NE(cache.masks({Kind::gbnf, "root ::= \"b\""}), b);
  EXPECT_TRUE(cache.masks({Kind::json_object})->grammar().matches("{}"));
  EXPECT_NE(error_of([&] { cache.masks({Kind::regex, "("}); }), "no error");
}

TEST(Masks, AreForgottenBeyondTheirMemory) {
  const auto vocabulary = small_vocabulary();
  TokenMasks masks(compile_json_object(), vocabulary, 4096);
  TokenMasks all(compile_json_object(), vocabulary);
  for (int round = 0; round < 2; ++round) {
    for (int32_t state = 0; state < std::ssize(masks.grammar().automaton().states); ++state) {
      const auto a = masks.mask_of(state), b = all.mask_of(state);
      ASSERT_EQ(a->layers.size(), b->layers.size());
      EXPECT_EQ(a->pops, b->pops);
      EXPECT_EQ(all.mask_of(state), b);
    }
  }
}

}  // namespace
}  // namespace gpt::grammar

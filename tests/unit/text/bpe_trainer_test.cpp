#include "text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "support/names.h"
#include "support/reference.h"
#include "text/gpt1_tokenizer.h"
#include "text/text_cut.h"
#include "text/tokenizer.h"
#include "text/tokenizer_facts.h"
#include "text/tokenizer_trainer.h"

namespace gpt {
namespace {

using nlohmann::json;

SplitPattern pattern_named(const std::string& name) {
  for (const TrainPattern& pattern : train_patterns()) {
    if (pattern.name == name && pattern.split) return *pattern.split;
  }
  ADD_FAILURE() << name;
  return SplitPattern::gpt2;
}

TrainedTokenizer train(std::string_view text, SplitPattern pattern, int64_t vocab_size, int threads = 1) {
  ThreadPool pool(threads);
  WordCounter counter(piece_splitter(pattern), pool);
  counter.add(text);
  counter.finish();
  return train_byte_level_bpe(counter, {.pattern = pattern, .vocab_size = vocab_size});
}

json merges_of(const TrainedTokenizer& trained) {
  return json::parse(trained.json)["model"]["merges"];
}

// The expected merges are from Hugging Face tokenizers (scripts/golden/make_bpe_train.py).
TEST(BpeTrainer, LearnsTheMergesOfTokenizers) {
  std::ifstream file(GPT_SOURCE_DIR "/tests/data/bpe_train.jsonl");
  int compared = 0;
  for (std::string line; std::getline(file, line); ++compared) {
    const json row = json::parse(line);
    const auto trained = train(row["text"].get<std::string>(), pattern_named(row["pattern"]),
                               row["vocab_size"], 1 + compared % 3);
    EXPECT_EQ(merges_of(trained), row["merges"]) << compared;
  }
  EXPECT_EQ(compared, 24);
}

TEST(BpeTrainer, LearnsTheReferenceMergesOfTinyShakespeare) {
  const std::string merges_folder = test::reference_path("bpe-train");
  const std::string corpus = test::reference_path("../data/tinyshakespeare/input.txt");
  GPT_SKIP_WITHOUT(merges_folder);
  GPT_SKIP_WITHOUT(corpus);
  const std::string text = read_file(corpus);
  const json summary = json::parse(read_file(merges_folder + "/summary.json"));
  for (const auto& [name, run] : summary["runs"].items()) {
    const auto trained = train(text, pattern_named(run["pattern"]), run["vocab_size"], 2);
    std::string merges = "#version: 0.2\n";
    for (const json& merge : merges_of(trained))
      merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
    EXPECT_EQ(merges, read_file(merges_folder + "/" + name + ".merges.txt")) << name;
    EXPECT_EQ(trained.text_tokens, run["corpus_tokens"].get<int64_t>()) << name;
  }
}

struct Word {
  std::vector<int32_t> ids;
  int64_t count;
};

// Computes merges by definition and counts all pairs again in each round.
std::vector<std::pair<int32_t, int32_t>> by_definition(std::vector<Word> words, int rounds, int32_t next_id) {
  std::vector<std::pair<int32_t, int32_t>> merges;
  for (; rounds > 0; --rounds, ++next_id) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const Word& w : words) {
      for (size_t i = 0; i + 1 < w.ids.size(); ++i)
        counts[{w.ids[i], w.ids[i + 1]}] += w.count;
    }
    if (counts.empty()) break;
    auto best = counts.begin();
    for (auto c = counts.begin(); c != counts.end(); ++c) {
      if (c->second > best->second) best = c;
    }
    const auto [left, right] = best->first;
    merges.emplace_back(left, right);
    for (Word& w : words) {
      for (size_t i = 0; i + 1 < w.ids.size(); ++i) {
        if (w.ids[i] != left || w.ids[i + 1] != right) continue;
        w.ids[i] = next_id;
        w.ids.erase(w.ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

TEST(BpeTrainer, FollowsTheDefinition) {
  RandomStream random(1, RandomSite::test);
  for (int round = 0; round < 200; ++round) {
    BpeTrainInput input;
    for (const char c : std::string("abcd"))
      input.tokens.emplace_back(1, c);
    std::vector<Word> words(1 + random.below(20));
    for (Word& w : words) {
      w.ids.resize(random.below(round % 2 == 0 ? 6 : 20));
      for (int32_t& id : w.ids)
        id = static_cast<int32_t>(random.below(round % 3 == 0 ? 2 : 4));
      w.count = static_cast<int64_t>(1 + random.below(5));
      input.words.add(static_cast<uint64_t>(w.count), w.ids);
    }
    const BpeTrainResult result = train_bpe(std::move(input), 24);
    // The simple definition does not cover two tokens whose concatenation already exists.
    if (std::ssize(result.tokens) != 4 + std::ssize(result.merges)) continue;
    std::vector<std::pair<int32_t, int32_t>> merges;
    for (const Bpe::Merge& m : result.merges)
      merges.emplace_back(m.left, m.right);
    EXPECT_EQ(merges, by_definition(words, static_cast<int>(merges.size()), 4)) << round;
  }
}

TEST(BpeTrainer, CountsBeyond32Bits) {
  BpeTrainInput input{.tokens = {"a", "b", "c"}};
  input.words.add(uint64_t{5} << 32, {0, 1});
  input.words.add((uint64_t{5} << 32) + 1, {1, 2});
  const BpeTrainResult result = train_bpe(std::move(input), 5);
  ASSERT_EQ(result.merges.size(), 2u);
  EXPECT_EQ(result.tokens[3], "bc");
  EXPECT_EQ(result.tokens[4], "ab");
  EXPECT_EQ(result.text_tokens, (int64_t{10} << 32) + 1);
}

TEST(BpeTrainer, EndsWhenNoPairIsLeft) {
  const TrainedTokenizer trained = train("aaa", SplitPattern::gpt2, 1000);
  EXPECT_EQ(trained.vocab_size, 258);
  EXPECT_EQ(train("", SplitPattern::gpt2, 1000).vocab_size, 256);
  EXPECT_EQ(train("abc", SplitPattern::gpt2, 256).vocab_size, 256);
  EXPECT_ERROR(train("abc", SplitPattern::gpt2, 255), ErrorCode::invalid_argument);
  EXPECT_ERROR(train("abc", SplitPattern::gpt2, int64_t{1} << 40), ErrorCode::invalid_argument);
}

TEST(BpeTrainer, ATokenizerWithoutMergesIsOne) {
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::nanochat}) {
    const auto trained = train("abc abc", pattern, 256);
    const auto tokenizer = parse_tokenizer(trained.json, "t");
    EXPECT_EQ(tokenizer->vocab_size(), 256);
    EXPECT_EQ(tokenizer->encode("a!"), (std::vector<int32_t>{'a' - '!', 0}));
    EXPECT_EQ(json::parse(tokenizer->to_json()), json::parse(trained.json));
  }
}

TrainedTokenizer train_gpt1(std::string_view text, int64_t vocab_size,
                            std::vector<std::string> special = {}) {
  ThreadPool pool(2);
  WordCounter counter(gpt1_splitter(), pool);
  counter.add(text);
  counter.finish();
  return train_gpt1_bpe(counter, {.vocab_size = vocab_size, .special_tokens = std::move(special)});
}

TEST(BpeTrainer, Gpt1WordsEndInTheirSuffix) {
  const std::string text = "Low, LOW lower; the lowest! The é of caf\u00e9.";
  const TrainedTokenizer trained = train_gpt1(text, 42, {"<|end|>"});
  const json root = json::parse(trained.json);
  EXPECT_EQ(root["model"]["vocab"]["<unk>"], 0);
  EXPECT_EQ(root["model"]["end_of_word_suffix"], "</w>");
  EXPECT_EQ(root["model"]["merges"][0], (json{"l", "o"}));  // five of them; "l" comes before "o"
  EXPECT_EQ(trained.vocab_size, 42);                        // with <unk> and <|end|>
  const auto tokenizer = parse_tokenizer(trained.json, "t");
  EXPECT_EQ(tokenizer->kind(), "gpt1");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("The lowest cafe")), "the lowest cafe");
  EXPECT_EQ(tokenizer->encode("\u4e2d"), std::vector<int32_t>{0});
  EXPECT_EQ(tokenizer->encode_special("<|end|>"), std::vector<int32_t>{41});
  EXPECT_EQ(std::ssize(tokenizer->encode(text)), trained.text_tokens);
  // The minimum is <unk>, two tokens per character, and the special token.
  const auto least = [&] {
    std::set<char32_t> characters;
    for (const std::u32string& word : detail::gpt1_words(text))
      characters.insert(word.begin(), word.end());
    return 1 + 2 * std::ssize(characters) + 1;
  }();
  EXPECT_EQ(train_gpt1(text, least, {"<|end|>"}).vocab_size, least);
  EXPECT_ERROR(train_gpt1(text, least - 1, {"<|end|>"}), ErrorCode::invalid_argument);
}

TEST(Explainer, ShowsGpt1Words) {
  const auto tokenizer = parse_tokenizer(train_gpt1("low low lower lowest", 25).json, "t");
  const auto pieces = Explainer(*tokenizer).explain("Lowest low");
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].symbols.back(), "t</w>");
  EXPECT_EQ(pieces[1].steps.back().symbols.size(), pieces[1].ids.size());
}

TEST(BpeTrainer, SpecialTokensFollowTheMerges) {
  ThreadPool pool(1);
  WordCounter counter(piece_splitter(SplitPattern::gpt2), pool);
  counter.add("the the the");
  counter.finish();
  const auto of_size = [&](int64_t vocab_size, std::vector<std::string> tokens) {
    return train_byte_level_bpe(counter, {.vocab_size = vocab_size, .special_tokens = std::move(tokens)});
  };
  const auto with = [&](const std::vector<std::string>& tokens) {
    return of_size(259 + std::ssize(tokens), tokens);  // three merges
  };
  const TrainedTokenizer trained = with({"<|b|>", "<|a|>"});
  EXPECT_EQ(trained.vocab_size, 261);
  EXPECT_EQ(of_size(258, {"<|b|>", "<|a|>"}).vocab_size, 258);
  EXPECT_ERROR(of_size(257, {"<|b|>", "<|a|>"}), ErrorCode::invalid_argument)
      << "no room for 256 bytes and these";
  const auto tokenizer = parse_tokenizer(trained.json, "t");
  EXPECT_EQ(tokenizer->encode_special("<|a|><|b|>"), (std::vector<int32_t>{260, 259}));
  EXPECT_GT(tokenizer->encode("<|a|>").size(), 1u);
  EXPECT_THROW(with({"<|a|>", "<|a|>"}), Error);
  EXPECT_THROW(with({""}), Error);
  EXPECT_THROW(with({"the"}), Error);
  EXPECT_THROW(with({"\xff"}), Error);
  for (const char* set : {"gpt2", "nanochat", "chatml", "llama3"}) {
    ASSERT_NE(special_token_set(set), nullptr);
    EXPECT_NO_THROW(with(*special_token_set(set)));
  }
  EXPECT_EQ(special_token_set("no such set"), nullptr);
}

// Returns text with words, numbers, white space and invalid UTF-8 bytes.
std::string random_text(uint64_t seed, size_t size) {
  RandomStream random(seed, RandomSite::test);
  const std::vector<std::string> parts = {" ",  "\n",     "\n\n",     "the", "I'll", "x",
                                          "  ", "12345",  "/a",       "!\n", "\t",   "\xff",
                                          "é",  "\u3000", "\u4e2d\n", "Ab",  "\r\n"};
  std::string text;
  while (text.size() < size)
    text += parts[random.below(parts.size())];
  return text;
}

std::vector<std::string> pieces_of(std::string_view text, SplitPattern pattern) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t end = split_end(pattern, text, at);
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

TEST(TextCut, SafeCutsChangeNoPiece) {
  int cuts = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = random_text(seed, 60);
    for (size_t end = text.size(); end > 0;) {
      const size_t cut = last_safe_cut(text, 0, end);
      if (cut == 0) break;
      ++cuts;
      for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::llama3,
                                         SplitPattern::nanochat, SplitPattern::o200k}) {
        auto parts = pieces_of(std::string_view(text).substr(0, cut), pattern);
        const auto rest = pieces_of(std::string_view(text).substr(cut), pattern);
        parts.insert(parts.end(), rest.begin(), rest.end());
        EXPECT_EQ(parts, pieces_of(text, pattern))
            << cut << " " << json(text).dump(-1, ' ', true, json::error_handler_t::replace);
      }
      end = cut - 1;
    }
  }
  EXPECT_GT(cuts, 300);
}

TEST(TextCut, CutsBetweenCharactersWhereNothingIsSafe) {
  const std::string text = "\u4e2d\u4e2d\u4e2d";
  EXPECT_EQ(last_safe_cut(text, 0, 9), 0u);
  EXPECT_EQ(last_cut(text, 0, 9), 9u);
  EXPECT_EQ(last_cut(text, 0, 8), 6u);
  EXPECT_EQ(last_cut(text, 0, 4), 3u);
  EXPECT_EQ(last_cut("\x80\x80\x80\x80\x80\x80", 0, 5), 5u);
}

using Counts = std::map<std::string, uint64_t>;

Counts counts_of(const WordCounter& counter) {
  Counts counts;
  for (const auto& word : counter.words())
    counts[std::string(word.text)] += word.count;
  return counts;
}

TEST(WordCounter, CountsTheSameInAnyPartsAndThreads) {
  const std::string text = random_text(7, 3 << 20);
  Counts expected;
  for (const std::string& piece : pieces_of(text, SplitPattern::gpt2))
    ++expected[piece];
  RandomStream random(8, RandomSite::test);
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    WordCounter counter(piece_splitter(SplitPattern::gpt2), pool);
    for (size_t at = 0; at < text.size();) {
      const size_t n = std::min<size_t>(1 + random.below(300000), text.size() - at);
      counter.add(std::string_view(text).substr(at, n));
      at += n;
    }
    counter.finish();
    EXPECT_EQ(counts_of(counter), expected) << threads;
    EXPECT_EQ(counter.bytes(), std::ssize(text));
    EXPECT_EQ(counter.dropped_below(), 0u);
  }
}

TEST(WordCounter, WordsEndWithTheirDocument) {
  ThreadPool pool(2);
  WordCounter counter(piece_splitter(SplitPattern::gpt2), pool);
  for (const char* document : {"ab", "", "cd", "ab"}) {
    counter.add(document);
    counter.end_document();
  }
  counter.finish();
  EXPECT_EQ(counts_of(counter), (Counts{{"ab", 2}, {"cd", 1}}));
  EXPECT_EQ(counter.total(), 3);
}

TEST(WordCounter, ForgetsTheRarestBeyondItsLimit) {
  std::vector<Counts> results;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    WordCounter counter(piece_splitter(SplitPattern::gpt2), pool, {.max_words = 1000});
    for (int i = 0; i < 4000; ++i) {
      counter.add(" common");
      counter.add(" w" + std::to_string(i % 2500));
    }
    counter.finish();
    EXPECT_GT(counter.dropped_below(), 1u);
    results.push_back(counts_of(counter));
    EXPECT_LE(results.back().size(), 1000u);
    EXPECT_EQ(results.back()[" common"], 4000u);
  }
  EXPECT_EQ(results[0], results[1]);
  ThreadPool pool(1);
  EXPECT_ERROR(WordCounter(piece_splitter(SplitPattern::gpt2), pool, {.max_words = 10}),
               ErrorCode::invalid_argument);
}

TEST(WordCounter, OneEndlessWordTakesLinearTime) {
  ThreadPool pool(2);
  WordCounter counter(piece_splitter(SplitPattern::gpt2), pool);
  counter.add(std::string(40 << 20, 'a'));
  counter.finish();
  EXPECT_EQ(counts_of(counter).size(), 2u);  // 16 MiB twice, and the rest
  EXPECT_EQ(counter.total(), 3);
}

TEST(Explainer, ShowsEveryMerge) {
  const auto tokenizer = parse_tokenizer(train("low low lower lowest", SplitPattern::gpt2, 262).json, "t");
  const auto pieces = Explainer(*tokenizer).explain("low lower\xff");
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[1].text, " lower");
  for (const auto& piece : pieces) {
    EXPECT_EQ(piece.ids, tokenizer->encode(piece.text));
    std::vector<std::string> symbols = piece.symbols;
    if (!piece.steps.empty()) symbols = piece.steps.back().symbols;
    std::vector<std::string> tokens;
    for (const int32_t id : piece.ids)
      tokens.push_back(tokenizer->token_bytes(id));
    EXPECT_EQ(symbols, tokens);
    EXPECT_EQ(piece.symbols.size() - piece.steps.size(), tokens.size());
  }
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(Explainer(*bytes).explain("ab").at(0).ids, (std::vector<int32_t>{'a', 'b'}));
}

TEST(TokenizerFacts, SayWhatThereIs) {
  const auto tokenizer =
      parse_tokenizer(train("low low lower lowest", SplitPattern::nanochat, 262).json, "t");
  const TokenizerFacts facts = tokenizer_facts(*tokenizer, 2);
  EXPECT_EQ(facts.kind, "bpe");
  EXPECT_EQ(facts.vocab_size, 262);
  EXPECT_EQ(facts.merges, 6);
  EXPECT_EQ(facts.pattern, split_regex(SplitPattern::nanochat));
  ASSERT_EQ(facts.longest.size(), 2u);
  EXPECT_GE(tokenizer->token_bytes(facts.longest[0]).size(), tokenizer->token_bytes(facts.longest[1]).size());
  EXPECT_EQ(tokenizer_facts(*make_byte_tokenizer()).pattern, "");
}

TEST(TokenizerFacts, SayWhetherTextsMayBeCut) {
  EXPECT_TRUE(tokenizer_facts(*make_byte_tokenizer()).can_cut);
  json root = json::parse(train("low low lower lowest", SplitPattern::gpt2, 262).json);
  const auto can_cut = [&] { return tokenizer_facts(*parse_tokenizer(root.dump(), "t")).can_cut; };
  EXPECT_TRUE(can_cut());
  const auto added = [&](const char* text, bool special) {
    root["added_tokens"] = json::array({{{"id", 262}, {"content", text}, {"special", special}}});
  };
  added("low er", true);
  EXPECT_TRUE(can_cut());  // only encode_special finds it
  added("low er", false);
  EXPECT_FALSE(can_cut());
  added("lows", false);
  EXPECT_TRUE(can_cut());
}

}  // namespace
}  // namespace gpt

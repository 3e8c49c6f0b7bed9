#include "text/tokenizer_trainer.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/bpe_tokenizer.h"
#include "text/byte_level.h"
#include "text/gpt1_tokenizer.h"
#include "text/split_scan.h"

namespace gpt {
namespace {

constexpr int64_t kMaxVocabSize = 4 << 20;  // limit of the tokenizer.json reader
constexpr const char* kUnknown = "<unk>";

constexpr TrainPattern kPatterns[] = {
    {"gpt2", "GPT-2's pattern", SplitPattern::gpt2},
    {"gpt4", "GPT-4's pattern, which splits numbers into groups of up to three digits", SplitPattern::llama3},
    {"llama3", "same as gpt4", SplitPattern::llama3},
    {"nanochat", "GPT-4's pattern, but with groups of up to two digits", SplitPattern::nanochat},
    {"o200k", "GPT-4o's pattern, which also splits words by letter case", SplitPattern::o200k},
    {"gpt1", "GPT-1's words in lower case", std::nullopt},
};

// Returns the bytes in the order of their ids in byte-level tokenizers. The ids follow the order of the
// characters that represent the bytes.
std::vector<unsigned char> bytes_by_id() {
  std::vector<unsigned char> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0);
  const auto& alphabet = detail::byte_level_alphabet();
  std::ranges::sort(bytes, {}, [&](unsigned char b) { return alphabet[b]; });
  return bytes;
}

// Throws Error if a special token equals the bytes or the spelling of another token, because other programs
// look up tokens by their spelling in the file.
void check_special_tokens(const std::vector<std::string>& names, const std::vector<std::string>& tokens) {
  std::unordered_set<std::string> ordinary;
  for (const std::string& token : tokens) {
    ordinary.insert(token);
    ordinary.insert(detail::in_alphabet(token));
  }
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    const std::string shown = printable_text(name, 40);
    if (name.empty()) fail("a special token is empty; give each special token a name");
    if (first_invalid_utf8(name)) fail("the special token \"{}\" is not valid UTF-8", shown);
    if (!seen.insert(name).second) fail("the special token \"{}\" is listed twice", shown);
    if (ordinary.contains(name))
      fail(
          "the special token \"{}\" is also an ordinary token of the new vocabulary; choose a different name",
          shown);
  }
}

std::vector<detail::AddedToken> added_tokens(const std::vector<std::string>& names, int64_t first_id) {
  return transformed(names, [&](const std::string& name) {
    return detail::AddedToken{.id = static_cast<int32_t>(first_id++), .text = name, .special = true};
  });
}

void check_vocab_size(int64_t vocab_size, int64_t least, const char* why) {
  if (vocab_size >= least && vocab_size <= kMaxVocabSize) return;
  fail_usage("vocab_size: expected {} ({}) to {}, found {}", least, why, kMaxVocabSize, vocab_size);
}

BpeTrainInput byte_input(const WordCounter& pieces) {
  BpeTrainInput input;
  int32_t ids[256];
  for (const unsigned char byte : bytes_by_id()) {
    ids[byte] = static_cast<int32_t>(input.tokens.size());
    input.tokens.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<int32_t> symbols;
  for (const auto& [text, count] : pieces.words()) {
    symbols.clear();
    for (const char c : text)
      symbols.push_back(ids[static_cast<unsigned char>(c)]);
    input.words.add(count, symbols);
  }
  return input;
}

std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    codes.push_back(c.code);
    at += static_cast<size_t>(c.length);
  }
  return codes;
}

BpeTrainInput character_input(const WordCounter& words) {
  const std::vector<WordCounter::Word> all = words.words();
  std::map<char32_t, int32_t> ids;
  for (const auto& word : all) {
    for (const char32_t code : characters_of(word.text))
      ids.emplace(code, 0);
  }
  BpeTrainInput input{.tokens = {kUnknown}};
  for (const char* end : {"", "</w>"}) {
    for (auto& [code, id] : ids) {
      std::string token;
      append_utf8(token, code);
      if (*end == '\0') id = static_cast<int32_t>(input.tokens.size());
      input.tokens.push_back(token + end);
    }
  }
  std::vector<int32_t> symbols;
  for (const auto& [text, count] : all) {
    symbols.clear();
    for (const char32_t code : characters_of(text))
      symbols.push_back(ids[code]);
    if (!symbols.empty()) symbols.back() += static_cast<int32_t>(ids.size());
    input.words.add(count, symbols);
  }
  return input;
}

}  // namespace

std::span<const TrainPattern> train_patterns() {
  return kPatterns;
}

const std::vector<std::string>* special_token_set(std::string_view name) {
  static const std::map<std::string, std::vector<std::string>, std::less<>> sets = {
      {"gpt2", {"<|endoftext|>"}},
      {"nanochat",
       {"<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>",
        "<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>"}},
      {"chatml", {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}},
      {"llama3",
       {"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
  };
  const auto found = sets.find(name);
  return found == sets.end() ? nullptr : &found->second;
}

WordSplitter piece_splitter(SplitPattern pattern) {
  return [pattern](std::string_view text, WordSink& sink) {
    detail::split_all(pattern, text, [&](std::string_view piece) { sink.add(piece); });
  };
}

WordSplitter gpt1_splitter() {
  return [](std::string_view text, WordSink& sink) {
    std::string bytes;
    for (const std::u32string& word : detail::gpt1_words(text)) {
      bytes.clear();
      for (const char32_t code : word)
        append_utf8(bytes, code);
      sink.add(bytes);
    }
  };
}

TrainedTokenizer train_byte_level_bpe(const WordCounter& pieces, const TokenizerTrainOptions& options,
                                      const BpeTrainProgress& progress) {
  const int64_t special = std::ssize(options.special_tokens);
  check_vocab_size(options.vocab_size, 256 + special, "the special tokens, and one token for each byte");
  BpeTrainResult result = train_bpe(byte_input(pieces), options.vocab_size - special, progress);
  check_special_tokens(options.special_tokens, result.tokens);
  const int64_t size = std::ssize(result.tokens);
  const auto tokenizer = detail::make_bpe_tokenizer({.tokens = std::move(result.tokens),
                                                     .merges = std::move(result.merges),
                                                     .added = added_tokens(options.special_tokens, size),
                                                     .pattern = options.pattern});
  return {tokenizer->to_json(), size + special, result.text_tokens};
}

TrainedTokenizer train_gpt1_bpe(const WordCounter& words, const TokenizerTrainOptions& options,
                                const BpeTrainProgress& progress) {
  BpeTrainInput input = character_input(words);
  const int64_t special = std::ssize(options.special_tokens);
  check_vocab_size(options.vocab_size, std::ssize(input.tokens) + special,
                   "<unk>, the special tokens, and two tokens for each character of the text");
  BpeTrainResult result = train_bpe(std::move(input), options.vocab_size - special, progress);
  check_special_tokens(options.special_tokens, result.tokens);
  const int64_t size = std::ssize(result.tokens);
  std::vector<detail::AddedToken> added = added_tokens(options.special_tokens, size);
  added.insert(added.begin(), {.id = 0, .text = kUnknown, .special = true});
  std::string json = detail::gpt1_json({.tokens = std::move(result.tokens),
                                        .merges = std::move(result.merges),
                                        .added = std::move(added),
                                        .unk = 0});
  return {std::move(json), size + special, result.text_tokens};
}

}  // namespace gpt

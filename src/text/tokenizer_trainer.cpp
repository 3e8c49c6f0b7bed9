#include "text/tokenizer_trainer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/tokenizer_kinds.h"
#include "text/utf8.h"

namespace gpt {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxVocab = 4 << 20;  // what the reader of tokenizer.json allows

constexpr TrainPattern kPatterns[] = {
    {"gpt2", "GPT-2's", SplitPattern::gpt2},
    {"gpt4", "GPT-4's, numbers of up to three digits", SplitPattern::llama3},
    {"llama3", "the same", SplitPattern::llama3},
    {"nanochat", "GPT-4's, numbers of up to two digits", SplitPattern::nanochat},
    {"o200k", "GPT-4o's, which cuts words where case says so", SplitPattern::o200k},
};

// Bytes in order of the ids that byte-level tokenizers give them: by the character that stands for each.
std::vector<unsigned char> bytes_by_id() {
  std::vector<unsigned char> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0);
  const auto& alphabet = detail::byte_level_alphabet();
  std::ranges::sort(bytes, {}, [&](unsigned char b) { return alphabet[b]; });
  return bytes;
}

std::string in_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes)
    append_utf8(out, detail::byte_level_alphabet()[static_cast<unsigned char>(c)]);
  return out;
}

Json pre_tokenizer_json(SplitPattern pattern) {
  if (pattern == SplitPattern::gpt2) return detail::byte_level_json(true);
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", split_regex(pattern)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, detail::byte_level_json(false)}}};
}

Json added_tokens_json(const std::vector<std::string>& names, int64_t first_id, const Json& vocab) {
  Json added = Json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const std::string shown = printable_text(name, 40);
    if (name.empty()) fail("a special token is empty; give each a name");
    if (first_invalid_utf8(name)) fail("the special token \"{}\" is not valid UTF-8", shown);
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      fail("the special token \"{}\" is given twice", shown);
    if (vocab.contains(name) || vocab.contains(in_alphabet(name)))
      fail("the special token \"{}\" is an ordinary token of this text too; choose another name", shown);
    added.push_back({{"id", first_id + static_cast<int64_t>(i)},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

BpeTrainInput input_of(const WordCounter& pieces) {
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
    for (size_t at = 0; at < text.size();) {
      const size_t end = split_end(pattern, text, at);
      sink.add(text.substr(at, end - at));
      at = end;
    }
  };
}

TrainedTokenizer train_byte_level_bpe(const WordCounter& pieces, const TokenizerTrainOptions& options,
                                      const BpeTrainProgress& progress) {
  if (options.vocab_size < 256 || options.vocab_size > kMaxVocab) {
    fail_usage("vocab_size: expected 256 (one token for every byte) to {}, found {}", kMaxVocab,
               options.vocab_size);
  }
  const BpeTrainResult result = train_bpe(input_of(pieces), options.vocab_size, progress);
  Json vocab = Json::object(), merges = Json::array();
  std::vector<std::string> names;
  for (const std::string& token : result.tokens) {
    names.push_back(in_alphabet(token));
    vocab[names.back()] = names.size() - 1;
  }
  for (const Bpe::Merge& m : result.merges)
    merges.push_back({names[static_cast<size_t>(m.left)], names[static_cast<size_t>(m.right)]});
  Json added = added_tokens_json(options.special_tokens, std::ssize(names), vocab);
  Json root = detail::json_without_merges(std::move(vocab), pre_tokenizer_json(options.pattern),
                                          detail::byte_level_json(true));
  root["added_tokens"] = std::move(added);
  root["model"]["merges"] = std::move(merges);
  return {root.dump(), std::ssize(names) + std::ssize(options.special_tokens), result.text_tokens};
}

}  // namespace gpt

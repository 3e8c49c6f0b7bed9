#include "text/tiktoken.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/token_index.h"

namespace gpt::detail {
namespace {

constexpr size_t kLongestToken = 1024;  // in bytes; published tokens have up to 128

// Returns the value of a base64 digit (RFC 4648), or -1.
int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i)
    text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit < 0) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFF);
  }
  // The remaining bits must all be 0, and there must be fewer than 6 of them.
  if ((bits & ((1u << count) - 1)) != 0 || count >= 6) return std::nullopt;
  return out;
}

struct Line {
  std::string token;
  int64_t rank;
};

std::optional<Line> read_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos || blank == 0) return std::nullopt;
  auto token = decode_base64(line.substr(0, blank));
  const auto rank = parse_number<int64_t>(line.substr(blank + 1));
  if (!token || !rank) return std::nullopt;
  return Line{*std::move(token), *rank};
}

struct Special {
  int32_t id;
  const char* text;
};

struct Published {
  size_t ranks;
  SplitPattern pattern;
  std::vector<Special> special;
};

// Sources: tiktoken_ext/openai_public.py, the tokenizer of Llama 3.
const std::vector<Published>& published() {
  static const std::vector<Published> all = {
      {50256, SplitPattern::gpt2, {{50256, "<|endoftext|>"}}},
      {50280, SplitPattern::gpt2, {{50256, "<|endoftext|>"}}},
      {100256,
       SplitPattern::cl100k,
       {{100257, "<|endoftext|>"},
        {100258, "<|fim_prefix|>"},
        {100259, "<|fim_middle|>"},
        {100260, "<|fim_suffix|>"},
        {100276, "<|endofprompt|>"}}},
      {199998, SplitPattern::o200k, {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}},
      {128000,
       SplitPattern::llama3,
       {{128000, "<|begin_of_text|>"},
        {128001, "<|end_of_text|>"},
        {128004, "<|finetune_right_pad_id|>"},
        {128006, "<|start_header_id|>"},
        {128007, "<|end_header_id|>"},
        {128008, "<|eom_id|>"},
        {128009, "<|eot_id|>"},
        {128010, "<|python_tag|>"}}},
  };
  return all;
}

// Adds the reserved special tokens of Llama 3, which use the remaining ids up to 128255.
void add_reserved(std::vector<AddedToken>& added) {
  constexpr int32_t kFirst = 128000, kEnd = 128256;
  for (int32_t id = kFirst, n = 0; id < kEnd; ++id) {
    if (std::ranges::any_of(added, [&](const AddedToken& t) { return t.id == id; })) continue;
    added.push_back({.id = id, .text = fmt::format("<|reserved_special_token_{}|>", n++), .special = true});
  }
}

std::optional<SplitPattern> pattern_in_name(const std::string& name) {
  constexpr std::pair<const char*, SplitPattern> kNames[] = {
      {"gpt2", SplitPattern::gpt2},         {"r50k", SplitPattern::gpt2},     {"p50k", SplitPattern::gpt2},
      {"cl100k", SplitPattern::cl100k},     {"llama3", SplitPattern::llama3}, {"o200k", SplitPattern::o200k},
      {"nanochat", SplitPattern::nanochat}, {"qwen2", SplitPattern::qwen2},
  };
  const std::string file = std::filesystem::path(name).filename().string();
  for (const auto& [part, pattern] : kNames) {
    if (file.find(part) != std::string::npos) return pattern;
  }
  return std::nullopt;
}

void choose_split(BpeParts& parts, size_t ranks, const std::string& name) {
  for (const Published& known : published()) {
    if (known.ranks != ranks) continue;
    parts.pattern = known.pattern;
    for (const Special& token : known.special)
      parts.added.push_back({.id = token.id, .text = token.text, .special = true});
    if (known.pattern == SplitPattern::llama3) {
      add_reserved(parts.added);
      parts.special = {.bos = 128000, .eos = 128001, .add_bos = true};
    }
    return;
  }
  const auto pattern = pattern_in_name(name);
  if (!pattern) {
    fail(
        "cannot read {}: no known vocabulary has {} ranks, and the file does not define how text is split; "
        "add gpt2, cl100k, llama3, nanochat, qwen2 or o200k to the file name",
        name, ranks);
  }
  parts.pattern = *pattern;
}

}  // namespace

bool is_rank_file(std::string_view content) {
  const size_t end = content.substr(0, 4 * kLongestToken).find('\n');
  return end != std::string_view::npos && read_line(content.substr(0, end)).has_value();
}

BpeParts read_rank_file(std::string_view content, const std::string& name) {
  BpeParts parts{.ranks = true};
  parts.ignore_merges = true;  // tiktoken does not merge a piece that is a token
  size_t count = 0;
  size_t number = 0;
  for (const std::string_view text : lines_of(content)) {
    ++number;
    if (text.empty()) continue;
    auto line = read_line(text);
    if (!line || line->token.empty() || line->rank < 0 || line->rank >= kMaxVocab) {
      fail("cannot read {}: line {}: expected a token in base64 and a rank below {}, found \"{}\"", name,
           number, kMaxVocab, printable_text(text, 60));
    }
    if (line->token.size() > kLongestToken)
      fail("cannot read {}: line {}: a token of {} bytes; expected at most {}", name, number,
           line->token.size(), kLongestToken);
    const auto id = static_cast<size_t>(line->rank);
    if (id >= parts.tokens.size()) parts.tokens.resize(id + 1);
    if (!parts.tokens[id].empty())
      fail("cannot read {}: line {}: the rank {} occurs twice", name, number, id);
    parts.tokens[id] = std::move(line->token);
    ++count;
  }
  choose_split(parts, count, name);
  return parts;
}

}  // namespace gpt::detail

#include "text/tokenizer_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/json_parts.h"
#include "text/byte_level.h"
#include "text/tokenizer_kinds.h"
#include "text/utf8.h"

namespace gpt {
namespace {

using Json = nlohmann::json;

// The regular expression of a tokenizer.json's pre_tokenizer, or "".
std::string pattern_of(const Json& root) {
  const Json& pre = detail::member(root, "pre_tokenizer");
  if (detail::has_type(pre, "ByteLevel") && !detail::member(pre, "use_regex").is_null() &&
      detail::member(pre, "use_regex") != Json(false))
    return std::string(split_regex(SplitPattern::gpt2));
  const Json& list = detail::member(pre, "pretokenizers");
  if (!list.is_array() || list.empty()) return "";
  const Json& pattern = detail::member(list[0], "pattern");
  if (!pattern.is_object()) return "";
  const Json& regex = detail::member(pattern, "Regex");
  return regex.is_string() ? regex.get<std::string>() : "";
}

// The bytes that a string in the byte-level alphabet stands for; nothing if it is not one.
std::optional<std::string> bytes_of(const std::string& token) {
  static const std::unordered_map<char32_t, char> bytes = [] {
    std::unordered_map<char32_t, char> map;
    for (size_t b = 0; b < 256; ++b)
      map[detail::byte_level_alphabet()[b]] = static_cast<char>(b);
    return map;
  }();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const Utf8Char c = decode_utf8(token, at);
    const auto found = bytes.find(c.code);
    if (c.status != Utf8Status::valid || found == bytes.end()) return std::nullopt;
    out += found->second;
    at += static_cast<size_t>(c.length);
  }
  return out;
}

void add_tokens(TokenizerFacts& facts, const Json& added) {
  for (const Json& token : added) {
    facts.added.push_back({token.at("id").get<int32_t>(), token.at("content").get<std::string>(),
                           !detail::unused(detail::member(token, "special"))});
  }
  std::ranges::sort(facts.added, {}, &TokenizerFacts::Added::id);
}

}  // namespace

TokenizerFacts tokenizer_facts(const Tokenizer& tokenizer, size_t longest) {
  TokenizerFacts facts{.kind = std::string(tokenizer.kind()), .vocab_size = tokenizer.vocab_size()};
  const Json root = Json::parse(tokenizer.to_json());
  const Json& merges = detail::member(detail::member(root, "model"), "merges");
  facts.merges = merges.is_array() ? std::ssize(merges) : 0;
  if (facts.merges > 0) facts.pattern = pattern_of(root);
  add_tokens(facts, detail::member(root, "added_tokens"));

  std::vector<std::pair<size_t, int32_t>> sizes;
  double bytes = 0;
  for (int32_t id = 0; id < facts.vocab_size; ++id) {
    if (std::ranges::binary_search(facts.added, id, {}, &TokenizerFacts::Added::id)) continue;
    try {
      sizes.emplace_back(tokenizer.token_bytes(id).size(), id);
      bytes += static_cast<double>(sizes.back().first);
    } catch (const Error&) {
      continue;  // ids may have holes
    }
  }
  if (!sizes.empty()) facts.mean_token_bytes = bytes / static_cast<double>(sizes.size());
  longest = std::min(longest, sizes.size());
  std::partial_sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(longest), sizes.end(),
                    [](const auto& a, const auto& b) {
                      return a.first != b.first ? a.first > b.first : a.second < b.second;
                    });
  for (size_t i = 0; i < longest; ++i)
    facts.longest.push_back(sizes[i].second);
  return facts;
}

Explainer::Explainer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  const Json root = Json::parse(tokenizer.to_json());
  pattern_ = find_split_pattern(pattern_of(root));
  const Json& merges = detail::member(detail::member(root, "model"), "merges");
  if (!pattern_ || !merges.is_array()) return;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto left = bytes_of(merges[rank].at(0).get<std::string>());
    const auto right = bytes_of(merges[rank].at(1).get<std::string>());
    if (left && right) ranks_.emplace(std::pair(*left, *right), static_cast<int64_t>(rank));
  }
  if (ranks_.empty()) pattern_.reset();
}

std::vector<Explainer::Piece> Explainer::explain(std::string_view text) const {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t end = pattern_ ? split_end(*pattern_, text, at) : text.size();
    pieces.push_back(explain_piece(text.substr(at, end - at)));
    at = end;
  }
  return pieces;
}

Explainer::Piece Explainer::explain_piece(std::string_view text) const {
  Piece piece{.text = std::string(text), .ids = tokenizer_.encode(text)};
  if (!pattern_) return piece;
  for (const char c : text)
    piece.symbols.emplace_back(1, c);
  for (std::vector<std::string> now = piece.symbols;;) {
    int64_t lowest = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < now.size(); ++i) {
      const auto found = ranks_.find({now[i], now[i + 1]});
      if (found == ranks_.end() || (lowest >= 0 && found->second >= lowest)) continue;
      lowest = found->second;
      at = i;
    }
    if (lowest < 0) break;
    now[at] += now[at + 1];
    now.erase(now.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    piece.steps.push_back({lowest, at, now});
  }
  return piece;
}

}  // namespace gpt

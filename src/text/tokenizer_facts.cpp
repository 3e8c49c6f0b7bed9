#include "text/tokenizer_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/gpt1_tokenizer.h"
#include "text/json_parts.h"

namespace gpt {
namespace {

using Json = nlohmann::json;

// Returns the regular expression of the pre_tokenizer in a tokenizer.json, or "" if there is none.
std::string pattern_of(const Json& root) {
  const Json& pre = detail::member(root, "pre_tokenizer");
  if (detail::has_type(pre, "ByteLevel") && !detail::member(pre, "use_regex").is_null() &&
      detail::member(pre, "use_regex") != Json(false))
    return std::string(split_regex(SplitPattern::gpt2));
  const Json& list = detail::member(pre, "pretokenizers");
  if (!list.is_array() || list.size() != 2 || !detail::has_type(list[1], "ByteLevel")) return "";
  const Json& pattern = detail::member(list[0], "pattern");
  if (!pattern.is_object()) return "";
  const Json& regex = detail::member(pattern, "Regex");
  return regex.is_string() ? regex.get<std::string>() : "";
}

// Returns true if a token may match across a cut of the text, or if matching the token depends on the text
// around it.
bool sees_cuts(const Json& token) {
  const auto used = [&](const char* key) { return !detail::unused(detail::member(token, key)); };
  if (used("special")) return false;
  const auto& text = token.at("content").get_ref<const std::string&>();
  return used("lstrip") || used("rstrip") || used("single_word") ||
         text.find_first_of(" \n") != std::string::npos;
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
  facts.pattern = facts.kind == "bpe" ? pattern_of(root) : "";
  add_tokens(facts, detail::member(root, "added_tokens"));

  const bool by_letters = facts.kind == "byte" || facts.kind == "char" || facts.kind == "gpt1";
  facts.can_cut = (by_letters || (facts.kind == "bpe" && find_split_pattern(facts.pattern))) &&
                  std::ranges::none_of(detail::member(root, "added_tokens"), sees_cuts);

  std::vector<std::pair<size_t, int32_t>> sizes;
  double bytes = 0;
  for (int32_t id = 0; id < facts.vocab_size; ++id) {
    if (std::ranges::binary_search(facts.added, id, {}, &TokenizerFacts::Added::id)) continue;
    const size_t size = bytes_of_id(tokenizer, id).size();
    if (size == 0) continue;
    sizes.emplace_back(size, id);
    bytes += static_cast<double>(size);
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

std::string bytes_of_id(const Tokenizer& tokenizer, int64_t id) {
  try {
    return tokenizer.token_bytes(static_cast<int32_t>(id));
  } catch (const Error&) {
    return "";
  }
}

Explainer::Explainer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  const Json root = Json::parse(tokenizer.to_json());
  pattern_ = find_split_pattern(pattern_of(root));
  gpt1_ = detail::is_gpt1_json(root);
  const Json& merges = detail::member(detail::member(root, "model"), "merges");
  if ((!pattern_ && !gpt1_) || !merges.is_array()) return;
  const detail::AlphabetReader alphabet;
  const auto text = [&](const Json& token) -> std::optional<std::string> {
    return gpt1_ ? token.get<std::string>() : alphabet.bytes_of(token.get<std::string>());
  };
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto left = text(merges[rank].at(0)), right = text(merges[rank].at(1));
    if (left && right) ranks_.emplace(std::pair(*left, *right), static_cast<int64_t>(rank));
  }
  if (ranks_.empty()) pattern_.reset();
}

std::vector<std::string> Explainer::words_of(std::string_view text) const {
  std::vector<std::string> words;
  if (gpt1_) {
    for (const std::u32string& word : detail::gpt1_words(text)) {
      words.emplace_back();
      for (const char32_t code : word)
        append_utf8(words.back(), code);
    }
    return words;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t end = pattern_ ? split_end(*pattern_, text, at) : text.size();
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<Explainer::Piece> Explainer::explain(std::string_view text) const {
  return transformed(words_of(text), [&](const std::string& word) { return explain_piece(word); });
}

Explainer::Piece Explainer::explain_piece(std::string_view text) const {
  Piece piece{.text = std::string(text), .ids = tokenizer_.encode(text)};
  if (!pattern_ && !gpt1_) return piece;
  for (size_t at = 0; at < text.size();) {
    const size_t length = gpt1_ ? static_cast<size_t>(decode_utf8(text, at).length) : 1;
    piece.symbols.emplace_back(text.substr(at, length));
    at += length;
  }
  if (gpt1_ && !piece.symbols.empty()) piece.symbols.back() += "</w>";
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

#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace gpt::detail {
namespace {

constexpr size_t kLongest = 4096;  // in bytes; bounds the work per byte of text if a file is malicious

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Returns the character that ends at byte `end` > 0.
Utf8Char last_char(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && is_continuation(text[at]))
    --at;
  return decode_utf8(text.substr(0, end), at);
}

bool is_space(const Utf8Char& c) {
  return c.status == Utf8Status::valid && is_white_space(c.code);
}

// Returns true for \w of regular expressions: letters, marks, digits, connectors and join controls (UTS 18,
// annex C). Circled and squared letters also count as letters.
bool is_word(const Utf8Char& c) {
  const Category k = c.status == Utf8Status::valid ? category(c.code) : Category::Cn;
  const auto within = [&](char32_t first, char32_t last) { return c.code >= first && c.code <= last; };
  const bool enclosed = within(0x24b6, 0x24e9) || within(0x1f130, 0x1f149) || within(0x1f150, 0x1f169) ||
                        within(0x1f170, 0x1f189);
  return is_letter(k) || is_mark(k) || k == Category::Nd || k == Category::Nl || k == Category::Pc ||
         (c.status == Utf8Status::valid && (enclosed || within(0x200c, 0x200d)));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, {}, &AddedToken::id);
  for (const AddedToken& token : tokens_) {
    if (token.text.empty()) fail("the added token {} has no text", token.id);
    if (const auto bad = first_invalid_utf8(token.text)) {
      fail("the added token {}, \"{}\", is not valid UTF-8 at byte {}", token.id,
           printable_text(token.text, 40), *bad);
    }
    if (token.text.size() > kLongest && !token.unused) {
      fail("the added token {} has {} bytes; expected at most {}", token.id, token.text.size(), kLongest);
    }
    if (token.unused) continue;
    if (token.lstrip || token.rstrip || token.single_word || token.text.find(' ') != std::string::npos)
      blanks_divide_ = false;
  }
  for (const AddedToken& token : tokens_) {
    if (token.unused || token.normalized) continue;
    sorted_.push_back(&token);
    const auto first = static_cast<unsigned char>(token.text[0]);
    only_first_byte_ = first_bytes_.none() || only_first_byte_ == first ? first : -1;
    first_bytes_.set(first);
    special_only_ = special_only_ && token.special;
  }
  std::ranges::stable_sort(sorted_, {}, &AddedToken::text);
}

// Tokens with a common prefix are adjacent in sorted_. Each byte of the text narrows the range of tokens that
// can still match. If a token ends at the current byte, that token is the first one in the range.
const AddedToken* AddedTokens::longest(std::string_view text) const {
  const AddedToken* found = nullptr;
  auto begin = sorted_.begin(), end = sorted_.end();
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    const auto at_depth = [&](const AddedToken* token) {
      return depth < token->text.size() ? static_cast<unsigned char>(token->text[depth]) : -1;
    };
    begin = std::partition_point(begin, end, [&](const AddedToken* t) { return at_depth(t) < byte; });
    end = std::partition_point(begin, end, [&](const AddedToken* t) { return at_depth(t) <= byte; });
    if (begin == end) break;
    if ((*begin)->text.size() == depth + 1) found = *begin;
  }
  return found;
}

bool covers(std::span<const TextRange> ranges, size_t begin, size_t end) {
  const auto range = std::ranges::upper_bound(ranges, begin, {}, &TextRange::end);
  return range != ranges.end() && range->begin <= begin && end <= range->end;
}

namespace {

// Returns the position at which the search continues after a rejected special token. This position is the end
// of the token, or the start of the next trusted range if that range starts earlier. The reason is that
// untrusted text must not hide the tokens of trusted text.
size_t behind_refused(std::span<const TextRange> trusted, size_t begin, size_t end) {
  const auto range = std::ranges::upper_bound(trusted, begin, {}, &TextRange::end);
  if (range == trusted.end() || range->begin >= end) return end;
  return std::max(range->begin, begin + 1);
}

}  // namespace

std::optional<AddedTokens::Match> AddedTokens::next(std::string_view text, size_t from, size_t floor,
                                                    std::span<const TextRange> trusted) const {
  if (sorted_.empty() || (trusted.empty() && special_only_)) return std::nullopt;
  for (size_t at = from; at < text.size();) {
    if (only_first_byte_ >= 0) {
      const void* byte = std::memchr(text.data() + at, only_first_byte_, text.size() - at);
      if (byte == nullptr) return std::nullopt;
      at = static_cast<size_t>(static_cast<const char*>(byte) - text.data());
    }
    const AddedToken* token =
        first_bytes_[static_cast<unsigned char>(text[at])] ? longest(text.substr(at)) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t end = at + token->text.size();
    if (token->special && !covers(trusted, at, end)) {
      at = behind_refused(trusted, at, end);
      continue;
    }
    if (token->single_word && ((at > 0 && is_word(last_char(text, at))) ||
                               (end < text.size() && is_word(decode_utf8(text, end))))) {
      at = end;
      continue;
    }
    Match match{at, end, end, token->id};
    for (; token->lstrip && match.begin > floor && is_space(last_char(text, match.begin));)
      match.begin -= static_cast<size_t>(last_char(text, match.begin).length);
    if (token->lstrip) match.begin = std::max(match.begin, floor);
    for (; token->rstrip && match.end < text.size() && is_space(decode_utf8(text, match.end));)
      match.end += static_cast<size_t>(decode_utf8(text, match.end).length);
    if (match.begin < match.end) return match;
    at = end;  // the previous token has already consumed the white space
  }
  return std::nullopt;
}

}  // namespace gpt::detail

#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace gpt::detail {

// A token that is matched in the original text, before the text is split and merged.
struct AddedToken {
  int32_t id;
  std::string text;
  bool special;                         // only matched if the caller allows special tokens
  bool unused = false;                  // never matched, because the id only has a name
  bool single_word = false;             // not matched inside a word
  bool lstrip = false, rstrip = false;  // also consumes the white space on this side
  bool normalized = false;              // matched after all other tokens, in the normalized text
};

// Returns true if bytes [begin, end) are inside one of the ranges. The ranges must be sorted and must not
// overlap.
bool covers(std::span<const TextRange> ranges, size_t begin, size_t end);

// The trusted ranges of a text that is either trusted or untrusted as a whole. The list contains one range
// for a trusted text, and no range for an untrusted text.
class WholeText {
 public:
  WholeText(std::string_view text, bool trusted) : range_{0, text.size()}, trusted_(trusted) {}
  // NOLINTNEXTLINE(google-explicit-constructor): passed as a list of ranges
  operator std::span<const TextRange>() const { return {&range_, trusted_ ? size_t{1} : size_t{0}}; }

 private:
  TextRange range_;
  bool trusted_;
};

// Finds the added tokens in a text by the rules of Hugging Face tokenizers, except for normalized tokens.
// Matches do not overlap. If several tokens begin at the same byte, the longest token matches. A match is
// rejected if the token is special and not allowed, or if the token is part of a word. A rejected match still
// hides all matches that begin inside it.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;
  // Throws Error for a token that is empty or longer than 4 KiB.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    size_t begin, end;  // includes the white space that the token consumes
    size_t resume;      // position at which the search continues; the consumed white space may contain tokens
    int32_t id;
  };
  // Returns the first match that begins at or after byte `from`. Special tokens only match inside a range of
  // `trusted`. White space before byte `floor` belongs to the previous token.
  std::optional<Match> next(std::string_view text, size_t from, size_t floor,
                            std::span<const TextRange> trusted) const;

  // Splits a text at its added tokens. Calls token(id) for each token, and plain(part, begin) for the text
  // before, between and after the tokens, in the order of the text. A part may be empty.
  template <class Plain, class Token>
  void divide(std::string_view text, std::span<const TextRange> trusted, Plain&& plain, Token&& token) const {
    size_t begin = 0, from = 0;
    while (const auto found = next(text, from, begin, trusted)) {
      plain(text.substr(begin, std::max(found->begin, begin) - begin), begin);
      token(found->id);
      begin = found->end;
      from = found->resume;
    }
    plain(text.substr(begin), begin);
  }

  const std::vector<AddedToken>& tokens() const { return tokens_; }  // sorted by id
  // Returns the token with this id, or null.
  const AddedToken* find(int32_t id) const {
    const auto at = std::ranges::lower_bound(tokens_, id, {}, &AddedToken::id);
    return at != tokens_.end() && at->id == id ? &*at : nullptr;
  }
  // Returns true if the token with this id is special or unused.
  bool is_no_text(int32_t id) const {
    const AddedToken* token = find(id);
    return token != nullptr && (token->special || token->unused);
  }
  // Returns the tokens that must be matched in normalized text. The texts of the returned tokens are
  // normalized. `write` normalizes a text.
  template <class Write>
  AddedTokens normalized(Write&& write) const {
    std::vector<AddedToken> found;
    for (AddedToken token : tokens_) {
      if (!token.normalized) continue;
      token.normalized = false;
      token.text = write(token.text);
      if (!token.text.empty()) found.push_back(std::move(token));
    }
    return AddedTokens(std::move(found));
  }

  // Returns true if no token can match across a cut before a space that follows another character. The text
  // can then be cut before any such space.
  bool blanks_divide() const { return blanks_divide_; }

 private:
  const AddedToken* longest(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<const AddedToken*> sorted_;  // tokens that can match, sorted by text
  std::bitset<256> first_bytes_;
  int only_first_byte_ = -1;  // common first byte of all tokens; -1 if they differ
  bool special_only_ = true;  // true if all tokens that can match are special
  bool blanks_divide_ = true;
};

}  // namespace gpt::detail

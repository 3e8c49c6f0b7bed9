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

// A token that is found in a text as it stands, before anything is split or merged.
struct AddedToken {
  int32_t id;
  std::string text;
  bool special;                         // found only where the caller asks for special tokens
  bool unused = false;                  // never found: its id has a name and nothing else
  bool single_word = false;             // not inside of a word
  bool lstrip = false, rstrip = false;  // takes the white space around it
  bool normalized = false;              // found after all others, and in what a normalizer makes of the text
};

// Whether bytes [begin, end) are inside of one of the ranges, which are in order and apart.
bool covers(std::span<const TextRange> ranges, size_t begin, size_t end);

// The one range of a text that is trusted or not as a whole.
class WholeText {
 public:
  WholeText(std::string_view text, bool trusted) : range_{0, text.size()}, trusted_(trusted) {}
  // NOLINTNEXTLINE(google-explicit-constructor): it stands for the ranges
  operator std::span<const TextRange>() const { return {&range_, trusted_ ? size_t{1} : size_t{0}}; }

 private:
  TextRange range_;
  bool trusted_;
};

// Finds added tokens in texts, but for normalized ones, as tokenizers does: matches do not overlap, the
// longest one counts where several begin at the same place, and a match that does not count, because the
// token is special or a part of a word, hides what begins inside of it.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;
  // Throws Error for a token without text or with more than 4 KiB of it.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    size_t begin, end;  // with the white space that the token takes
    size_t resume;      // where the next match may begin: that white space may have tokens in it
    int32_t id;
  };
  // The first token from byte `from` on; special ones only inside of a range of `trusted`. White space before
  // byte `floor` belongs to the token before it.
  std::optional<Match> next(std::string_view text, size_t from, size_t floor,
                            std::span<const TextRange> trusted) const;

  // plain(part, where it begins) for what lies before, between and behind the tokens of a text, which may be
  // nothing; token(id) for each of them; in the order of the text.
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

  const std::vector<AddedToken>& tokens() const { return tokens_; }  // in order of their ids
  // The token with this id, or null.
  const AddedToken* find(int32_t id) const {
    const auto at = std::ranges::lower_bound(tokens_, id, {}, &AddedToken::id);
    return at != tokens_.end() && at->id == id ? &*at : nullptr;
  }
  // Whether one of them has this id and is special or unused.
  bool is_no_text(int32_t id) const {
    const AddedToken* token = find(id);
    return token != nullptr && (token->special || token->unused);
  }
  // The normalized ones alone, to be found too; `write` says what becomes of their texts.
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

  // Whether a text may be cut before a blank behind something else: no token would notice.
  bool blanks_divide() const { return blanks_divide_; }

 private:
  const AddedToken* longest(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<const AddedToken*> sorted_;  // those that are found, by text
  std::bitset<256> first_bytes_;
  int only_first_byte_ = -1;  // if there is but one
  bool special_only_ = true;  // all that are found are special
  bool blanks_divide_ = true;
};

}  // namespace gpt::detail

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpt::detail {

// A regular expression of a tokenizer.json, in Oniguruma's spelling, as far as it means the same to PCRE2.
// Classes of characters are those of unicode.h, whatever version PCRE2 knows. Immutable: safe to share
// between threads.
class Regex {
 public:
  // Throws Error naming what is not supported, or what is wrong.
  explicit Regex(const std::string& pattern);
  ~Regex();

  // Searches texts for it, one at a time; for one thread.
  class Search {
   public:
    explicit Search(const Regex& regex);
    ~Search();

    // The next matches are those of this text, which must stay. Bytes that belong to no valid character count
    // as characters that are no letter, number or white space.
    void begin(std::string_view text);
    // Returns the begin and end of the next match. A match may be empty, unless it begins where the match
    // before it ends. Throws Error where that takes too long. Source: Rust's onig, FindMatches.
    std::optional<std::pair<size_t, size_t>> next();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// The pattern in PCRE2's spelling. Throws Error for what would mean something else there.
std::string pcre2_pattern(std::string_view pattern);

}  // namespace gpt::detail

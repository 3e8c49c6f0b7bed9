#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpt::detail {

// A regular expression of a tokenizer.json in Oniguruma's syntax. Only supports syntax with the same meaning
// in PCRE2. Character classes follow unicode.h, not PCRE2's version of Unicode. Immutable and safe to share
// between threads.
class Regex {
 public:
  // Throws Error for an unsupported or invalid pattern, with the part of the pattern that causes the error.
  explicit Regex(const std::string& pattern);
  ~Regex();

  // Searches texts for matches, one text at a time. Not thread-safe.
  class Search {
   public:
    explicit Search(const Regex& regex);
    ~Search();

    // Starts a search in `text`, which must stay valid during the search. Invalid UTF-8 bytes count as
    // characters that are neither letters, numbers nor white space.
    void begin(std::string_view text);
    // Returns the begin and end of the next match. A match may be empty, unless it begins at the end of the
    // previous match. Throws Error if matching takes too long. Source: Rust's onig, FindMatches.
    std::optional<std::pair<size_t, size_t>> next();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// Converts a pattern to PCRE2's syntax. Throws Error for syntax with a different meaning in PCRE2.
std::string pcre2_pattern(std::string_view pattern);

}  // namespace gpt::detail

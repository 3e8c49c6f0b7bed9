#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Streams text up to the first stop string. Accepts text in pieces of any size, and returns a part of the
// text as soon as this part cannot belong to a stop string. The stop string that completes first wins. If
// several stop strings complete at the same byte, the longest wins. The stop string and the text after it are
// not returned. The result does not depend on how the text was split. If the stop strings and all pieces
// consist of whole UTF-8 characters, then the output of every call also consists of whole UTF-8 characters.
class StopStrings {
 public:
  // Throws invalid_argument for an empty stop string. Without stop strings, all text passes through.
  explicit StopStrings(const std::vector<std::string>& stops);

  // Adds a piece of text and returns the text that can be shown now. Returns "" once a stop string was found.
  std::string push(std::string_view piece);

  // Ends the text and returns the part that was held back. Returns "" once a stop string was found.
  std::string finish();

  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }  // the matched stop string; empty unless stopped

 private:
  // A Knuth-Morris-Pratt matcher. It tracks the length of the longest prefix of a stop string that is also a
  // suffix of the text so far.
  struct Matcher {
    std::string stop;
    // fallback[i] is the length of the longest proper prefix of stop[0..i] that is also its suffix.
    std::vector<size_t> fallback;
    size_t matched = 0;

    void advance(char byte);  // must not be called once complete
    bool complete() const { return matched == stop.size(); }
  };

  std::vector<Matcher> matchers_;
  std::string held_;
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace gpt

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Streams text up to the first stop string. Accepts text in pieces of any size and returns each part as soon
// as it cannot belong to a stop string. The stop string that completes first wins. If several stop strings
// complete at the same byte, the longest wins. The stop string and the text after it are not returned. The
// result does not depend on how the text was split. If stop strings and pieces consist of whole UTF-8
// characters, so does the output of every call.
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
  // A Knuth-Morris-Pratt matcher that tracks the longest prefix of a stop string that the text currently ends
  // with.
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

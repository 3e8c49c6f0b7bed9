#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Streams text up to the first stop string. Text arrives in pieces of any size and leaves as soon as it
// cannot be part of a stop string any more. The stop string that completes first wins, of several that
// complete together the longest; neither it nor anything after it comes out. The result does not depend
// on how the text was cut. Where stop strings and pieces consist of whole UTF-8 characters, so does the
// output of every call.
class StopStrings {
 public:
  // Throws invalid_argument for an empty stop string. No stop strings: everything passes through.
  explicit StopStrings(const std::vector<std::string>& stops);

  // Takes the next piece of text and returns what can be shown now; nothing once stopped.
  std::string push(std::string_view piece);

  // The end of the text: returns what was held back; nothing once stopped.
  std::string finish();

  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }  // the stop string; empty unless stopped

 private:
  // Knuth-Morris-Pratt: how much of a stop string the text so far ends with, one byte at a time.
  struct Matcher {
    std::string stop;
    std::vector<size_t> fallback;  // [i]: longest proper prefix of stop[0..i] that is also its suffix
    size_t matched = 0;

    void advance(char byte);  // not once complete
    bool complete() const { return matched == stop.size(); }
  };

  std::vector<Matcher> matchers_;
  std::string held_;
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace gpt

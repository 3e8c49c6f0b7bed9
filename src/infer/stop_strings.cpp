#include "infer/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gpt {

void StopStrings::Matcher::advance(char byte) {
  while (matched > 0 && stop[matched] != byte)
    matched = fallback[matched - 1];
  if (stop[matched] == byte) ++matched;
}

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) fail_parameter("stop", "expected at least one character, found an empty string");
    std::vector<size_t> fallback(stop.size(), 0);
    for (size_t i = 1, length = 0; i < stop.size(); ++i) {
      while (length > 0 && stop[i] != stop[length])
        length = fallback[length - 1];
      if (stop[i] == stop[length]) ++length;
      fallback[i] = length;
    }
    matchers_.push_back({stop, std::move(fallback)});
  }
}

std::string StopStrings::push(std::string_view piece) {
  if (stopped_) return {};
  for (const char byte : piece) {
    held_ += byte;
    for (Matcher& matcher : matchers_) {
      matcher.advance(byte);
      if (matcher.complete() && matcher.stop.size() > matched_.size()) matched_ = matcher.stop;
    }
    if (matched_.empty()) continue;
    stopped_ = true;
    held_.resize(held_.size() - matched_.size());
    return std::exchange(held_, {});
  }
  size_t hold = 0;
  for (const Matcher& matcher : matchers_)
    hold = std::max(hold, matcher.matched);
  std::string shown = held_.substr(0, held_.size() - hold);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::finish() {
  return std::exchange(held_, {});
}

}  // namespace gpt

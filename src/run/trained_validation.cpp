#include "run/trained_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t kSamples = 16;
constexpr int64_t kLength = 200;  // tokens; such a long text is rarely written twice
constexpr int64_t kLeast = 32;    // shorter samples occur in the training text by chance
constexpr int64_t kBlock = int64_t{1} << 16;
constexpr int64_t kMostRead = int64_t{1} << 28;

// Stores the samples, indexed by their first two token ids.
class Samples {
 public:
  Samples(const TokenSpan& text, int64_t length) : found_(kSamples, false) {
    for (int64_t i = 0; i < kSamples; ++i) {
      std::vector<int32_t> ids(static_cast<size_t>(length));
      text.copy((text.size() - length) * i / (kSamples - 1), length, ids.data());
      places_[key(ids.data())].push_back(texts_.size());
      texts_.push_back(std::move(ids));
    }
  }

  // Marks the samples that start at one of the first `n` positions of `ids`.
  void look_in(const std::vector<int32_t>& ids, int64_t n) {
    for (int64_t at = 0; at < n; ++at) {
      const auto candidates = places_.find(key(ids.data() + at));
      if (candidates == places_.end()) continue;
      for (const size_t i : candidates->second) {
        if (!found_[i]) found_[i] = std::equal(texts_[i].begin(), texts_[i].end(), ids.data() + at);
      }
    }
  }

  int64_t found() const { return std::ranges::count(found_, true); }

 private:
  static uint64_t key(const int32_t* ids) {
    return uint64_t{static_cast<uint32_t>(ids[0])} << 32 | static_cast<uint32_t>(ids[1]);
  }

  std::vector<std::vector<int32_t>> texts_;
  std::vector<bool> found_;
  std::unordered_map<uint64_t, std::vector<size_t>> places_;
};

}  // namespace

SharedSamples find_shared_samples(const TokenSpan& train, const TokenSpan& val) {
  const int64_t length = std::min(kLength, val.size() / 2);
  if (length < kLeast || train.size() < length) return {};
  Samples samples(val, length);
  const int64_t end = std::min(train.size(), kMostRead);
  std::vector<int32_t> ids;
  for (int64_t at = 0; at + length <= end && samples.found() < kSamples; at += kBlock) {
    const int64_t n = std::min(kBlock, end - length - at + 1);
    ids.resize(static_cast<size_t>(n + length - 1));
    train.copy(at, std::ssize(ids), ids.data());
    samples.look_in(ids, n);
  }
  return {.samples = kSamples, .found = samples.found(), .length = length};
}

std::string note_shared_samples(const TokenSpan& train, const TokenSpan& val) {
  const SharedSamples s = find_shared_samples(train, val);
  if (s.samples == 0 || 4 * s.found < s.samples) return "";
  return fmt::format(
      "note: the training text contains parts of the validation text ({} of {} samples of {} tokens), so the "
      "validation loss does not predict the loss on new text\n",
      s.found, s.samples, s.length);
}

}  // namespace gpt

#include "infer/ngram.h"

#include <algorithm>

namespace gpt {
namespace {

constexpr size_t kFewestEntries = size_t{1} << 12, kMostEntries = size_t{1} << 18;
// Each token adds up to three n-grams. With eight entries per token, collisions are rare.
constexpr size_t kEntriesOfToken = 8;

uint64_t hash_of(std::span<const int32_t> ngram) {
  uint64_t hash = ngram.size();
  for (const int32_t id : ngram)
    hash = (hash ^ static_cast<uint32_t>(id)) * 0x9E3779B97F4A7C15ull;
  return hash ^ (hash >> 32);
}

}  // namespace

void NgramIndex::clear() {
  std::ranges::fill(after_, 0u);
  learned_ = 0;
}

uint32_t& NgramIndex::entry(std::span<const int32_t> ngram) {
  return after_[hash_of(ngram) & (after_.size() - 1)];
}

// The n-gram at the end of the sequence is not indexed because no token follows it yet.
void NgramIndex::learn(std::span<const int32_t> ids) {
  if (ids.size() * kEntriesOfToken > after_.size() && after_.size() < kMostEntries) {
    size_t entries = kFewestEntries;
    while (entries < ids.size() * kEntriesOfToken && entries < kMostEntries)
      entries *= 2;
    after_.assign(entries, 0);
    learned_ = 0;
  }
  // In a long sequence, only the newest tokens are indexed, because these tokens are enough to fill the
  // table.
  if (ids.size() > after_.size()) learned_ = std::max(learned_, ids.size() - after_.size());
  for (size_t end = std::max<size_t>(learned_, 1); end < ids.size(); ++end) {
    for (size_t n = kShortest; n <= std::min(kLongest, end); ++n)
      entry(ids.subspan(end - n, n)) = static_cast<uint32_t>(end);
  }
  learned_ = ids.size();
}

size_t NgramIndex::find(std::span<const int32_t> ids) {
  learn(ids);
  for (size_t n = kLongest; n >= kShortest; --n) {
    if (ids.size() <= n) continue;
    const std::span<const int32_t> last = ids.last(n);
    const size_t after = entry(last);
    if (after >= n && std::ranges::equal(ids.subspan(after - n, n), last)) return after;
  }
  return 0;
}

void NgramProposer::propose(std::span<const Ask> asks) {
  for (const Ask& ask : asks) {
    const size_t after = index(ask.slot).find(ask.ids);
    if (after == 0) continue;
    // If the text repeats with a period shorter than the draft, the draft repeats its own first tokens.
    const size_t period = ask.ids.size() - after, begin = ask.result->size();
    for (size_t i = 0; i < static_cast<size_t>(ask.most); ++i)
      ask.result->push_back(i < period ? ask.ids[after + i] : (*ask.result)[begin + i - period]);
  }
}

}  // namespace gpt

#include "data/loader.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace gpt {
namespace {

constexpr int64_t kRound = 65536;  // samples per round; every source gets its exact share of a round

// Returns the end of each source in a round of kRound samples. Before the round is shuffled, the samples of
// each source are consecutive. The ends are the cumulative sums of the normalized weights, multiplied by
// kRound and rounded.
std::vector<int64_t> ends_in_round(const std::vector<WeightedTokens>& sources) {
  double total = 0, sum = 0;
  for (const WeightedTokens& source : sources) {
    if (!(source.weight > 0 && std::isfinite(source.weight)))
      fail_usage("data: expected weights above 0, found {}", source.weight);
    total += source.weight;
  }
  std::vector<int64_t> ends;
  for (const WeightedTokens& source : sources) {
    sum += source.weight;
    const int64_t before = ends.empty() ? 0 : ends.back();
    ends.push_back(std::llround(sum / total * static_cast<double>(kRound)));
    if (ends.back() == before)
      fail_usage("data: the weight {} is too small: expected at least 1/{} of the sum of all weights",
                 source.weight, kRound);
  }
  ends.back() = kRound;
  return ends;
}

// Window permutations use the epoch as their key. Source permutations set the highest bit of their key, so
// the two kinds of keys never coincide.
constexpr uint64_t kMixKey = uint64_t{1} << 63;

// With fewer bits per half, the round functions cannot generate every permutation of a small n.
constexpr int kMinHalfBits = 3;

// The finalizer of MurmurHash3 (64 bit). Every input bit affects every output bit.
uint64_t scramble(uint64_t x) {
  x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDull;
  x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53ull;
  return x ^ x >> 33;
}

}  // namespace

BatchLoader::BatchLoader(TokenSpan data, int64_t n_ctx, uint64_t seed, Sampling sampling)
    : BatchLoader(std::vector<WeightedTokens>{{data, 1}}, n_ctx, seed, sampling) {}

BatchLoader::BatchLoader(std::vector<WeightedTokens> sources, int64_t n_ctx, uint64_t seed, Sampling sampling)
    : sources_(std::move(sources)),
      ends_(ends_in_round(sources_)),
      n_ctx_(n_ctx),
      seed_(seed),
      sampling_(sampling) {
  for (const WeightedTokens& source : sources_)
    require_context(source.tokens, n_ctx_,
                    sources_.size() == 1 ? "the training text" : "one of the training texts");
}

BatchLoader::Share BatchLoader::share(int64_t sample) const {
  if (sources_.size() == 1) return {0, sample};
  const int64_t round = sample / kRound;
  const KeyedPermutation order(kRound, seed_, kMixKey | static_cast<uint64_t>(round));
  const int64_t at = order(sample % kRound);
  const int64_t source = std::ranges::upper_bound(ends_, at) - ends_.begin();
  const int64_t begin = source == 0 ? 0 : ends_[static_cast<size_t>(source - 1)];
  return {source, round * (ends_[static_cast<size_t>(source)] - begin) + at - begin};
}

BatchLoader::Place BatchLoader::place(int64_t sample) const {
  GPT_ASSERT(sample >= 0);
  const auto [source, number] = share(sample);
  if (sampling_ == Sampling::random) {
    RandomStream stream(seed_, RandomSite::data, 0, static_cast<uint64_t>(sample));
    return {source,
            static_cast<int64_t>(stream.below(static_cast<uint64_t>(tokens(source).size() - n_ctx_)))};
  }
  const int64_t windows = windows_per_epoch(source);
  const KeyedPermutation order(windows, seed_, static_cast<uint64_t>(number / windows));
  return {source, order(number % windows) * n_ctx_};
}

void BatchLoader::fill(int64_t step, int64_t first_sample, int64_t count, int64_t batch_size, int32_t* ids,
                       int32_t* targets) const {
  GPT_ASSERT(step >= 0 && first_sample >= 0 && count >= 0 && first_sample + count <= batch_size);
  for (int64_t i = 0; i < count; ++i) {
    const Place at = place(step * batch_size + first_sample + i);
    tokens(at.source).copy(at.start, n_ctx_, ids + i * n_ctx_);
    tokens(at.source).copy(at.start + 1, n_ctx_, targets + i * n_ctx_);
  }
}

KeyedPermutation::KeyedPermutation(int64_t n, uint64_t seed, uint64_t epoch) : n_(static_cast<uint64_t>(n)) {
  GPT_ASSERT(n >= 1);
  half_bits_ = std::max(kMinHalfBits, (static_cast<int>(std::bit_width(n_ - 1)) + 1) / 2);
  // The random windows use step 0 of RandomSite::data, so permutations use step 1.
  RandomStream stream(seed, RandomSite::data, 1, epoch);
  for (uint64_t& key : keys_)
    key = stream.next_u64();
}

int64_t KeyedPermutation::operator()(int64_t i) const {
  GPT_ASSERT(i >= 0 && static_cast<uint64_t>(i) < n_);
  if (n_ == 1) return 0;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto x = static_cast<uint64_t>(i);
  do {
    uint64_t left = x >> half_bits_;
    uint64_t right = x & mask;
    for (const uint64_t key : keys_) {
      const uint64_t mixed = left ^ (scramble(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    x = left << half_bits_ | right;
  } while (x >= n_);
  return static_cast<int64_t>(x);
}

}  // namespace gpt

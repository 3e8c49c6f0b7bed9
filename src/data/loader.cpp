#include "data/loader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "data/permutation.h"

namespace gpt {
namespace {

constexpr int64_t kRound = 65536;  // samples in which every source has its share

// Where the samples of each source end when a round is laid out source by source: rounded sums of weights.
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
      fail_usage("data: the weight {} is too small beside the others: expected at least 1/{} of all",
                 source.weight, kRound);
  }
  ends.back() = kRound;
  return ends;
}

// Orders of windows have the epoch as key; this one must not meet them.
constexpr uint64_t kMixKey = uint64_t{1} << 63;

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
                    sources_.size() == 1 ? "the training text" : "a part of the training text");
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

}  // namespace gpt

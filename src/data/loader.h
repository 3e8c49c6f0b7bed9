#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/token_data.h"

namespace gpt {

enum class Sampling { random, epoch };

// A source of training data and its weight in the mix.
struct WeightedTokens {
  TokenSpan tokens;
  double weight = 1;  // relative to the sum of all weights
};

// Computes training batches as a function of the step. Sample k = step * batch_size + i is one window of
// n_ctx ids. Its targets are the same window shifted by one token. The window depends on the sampling:
//   random: The window starts at a uniformly random position in [0, n - n_ctx). The random key is (seed, k).
//   epoch:  Each window [w * n_ctx, (w + 1) * n_ctx) occurs once per epoch, in random order. The random key
//           is (seed, epoch). The last incomplete window is dropped. A batch may span two epochs.
//
// With several sources, every 65536 consecutive samples contain each source in proportion to its weight, in
// random order. The random key is (seed, k / 65536). Every source then has its own epochs.
//
// The loader stores no position, so resumed runs, micro-batches and ranks read the same samples as a single
// uninterrupted run.
class BatchLoader {
 public:
  // Throws Error when the data has fewer than n_ctx + 1 tokens. The data must outlive the loader.
  BatchLoader(TokenSpan data, int64_t n_ctx, uint64_t seed, Sampling sampling);
  // Also throws invalid_argument when a weight is not positive or is less than 1/65536 of the sum of weights.
  BatchLoader(std::vector<WeightedTokens> sources, int64_t n_ctx, uint64_t seed, Sampling sampling);

  // Writes samples first_sample .. first_sample + count - 1 of the batch of `step` (0-based) to ids and
  // targets, both [count, n_ctx] row-major.
  void fill(int64_t step, int64_t first_sample, int64_t count, int64_t batch_size, int32_t* ids,
            int32_t* targets) const;

  struct Place {
    int64_t source, start;  // index of the source, and position of the window's first token in it
  };
  Place place(int64_t sample) const;  // sample >= 0
  int64_t start(int64_t sample) const { return place(sample).start; }
  int64_t windows_per_epoch(int64_t source = 0) const { return (tokens(source).size() - 1) / n_ctx_; }
  int64_t n_ctx() const { return n_ctx_; }

 private:
  struct Share {
    int64_t source, number;  // index of the source, and index of the sample among the samples of this source
  };
  Share share(int64_t sample) const;
  const TokenSpan& tokens(int64_t source) const { return sources_[static_cast<size_t>(source)].tokens; }

  std::vector<WeightedTokens> sources_;
  std::vector<int64_t> ends_;  // end of each source's samples in a round
  int64_t n_ctx_;
  uint64_t seed_;
  Sampling sampling_;
};

// A pseudo-random permutation of 0 .. n-1 that is computed instead of stored. It is a Feistel network over
// the next even number of bits, applied repeatedly until the result is below n (cycle walking; Black &
// Rogaway 2002, "Ciphers with arbitrary finite domains"). The key of the permutation is (seed,
// RandomSite::data, epoch).
class KeyedPermutation {
 public:
  KeyedPermutation(int64_t n, uint64_t seed, uint64_t epoch);  // n >= 1
  int64_t operator()(int64_t i) const;                         // 0 <= i < n

 private:
  static constexpr int kRounds = 8;
  uint64_t n_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace gpt

#include "infer/logprobs.h"

#include <algorithm>

namespace gpt {

void rank(std::span<TokenScore> candidates, int64_t k, double log_sum, std::vector<TokenLogprob>& result) {
  std::sort(candidates.begin(), candidates.end(), [](const TokenScore& a, const TokenScore& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
  result.clear();
  for (const TokenScore& c : candidates.first(std::min(candidates.size(), static_cast<size_t>(k))))
    result.push_back({c.id, c.score - log_sum});
}

}  // namespace gpt

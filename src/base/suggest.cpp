#include "base/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace gpt {
namespace {

// Levenshtein distance, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  word = word.substr(0, 64);
  size_t best = std::max<size_t>(2, word.size() / 3) + 1;
  std::string_view winner;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      winner = candidate;
    }
  }
  return winner.empty() ? "" : "; did you mean " + std::string(winner) + "?";
}

}  // namespace gpt

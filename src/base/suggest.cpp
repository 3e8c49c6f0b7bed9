#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>
#include <vector>

namespace gpt {
namespace {

// Returns the edit distance: the number of insertions, deletions, replacements and swaps of adjacent letters.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), above, second;  // the current row and the two rows before it
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    second = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], second[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// Normalizes a word for comparison: removes the leading dashes of a flag and converts letters to lower case.
std::string plain(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string out(word);
  for (char& c : out)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Returns the maximum edit distance of a suggestion. Two different letters are too many for a short word.
size_t most_steps(std::string_view word) {
  return word.size() < 5 ? 1 : std::max<size_t>(2, word.size() / 3);
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string typed = plain(word.substr(0, 64));
  size_t best = most_steps(typed) + 1;
  std::string_view winner;
  for (const std::string& candidate : candidates) {
    const std::string other = plain(candidate);
    if (typed.size() < 3 && !other.starts_with(typed.substr(0, 1))) continue;
    const size_t distance = edit_distance(typed, other);
    if (distance < best) {
      best = distance;
      winner = candidate;
    }
  }
  return winner.empty() ? "" : "; did you mean " + std::string(winner) + "?";
}

}  // namespace gpt

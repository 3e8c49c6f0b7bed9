#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "distributed/communicator.h"

namespace gpt {

// Functions that divide independent work items among the ranks. Results are returned in the order of the
// items, independent of the number of ranks. Sums over the results are therefore bit-identical for any number
// of ranks.

// Concatenates the values of all ranks in the order of the ranks. The result is the same on all ranks.
std::vector<double> joined(Communicator& processes, const std::vector<double>& own, const char* what);
std::vector<std::string> joined(Communicator& processes, const std::vector<std::string>& own,
                                const char* what);

// Computes `of(i)` for all items i, concatenates the results in the order of the items, and returns them on
// all ranks. The function `of` returns a vector of numbers or texts. In each round, every rank computes one
// item. A rank without an item in the last round calls `idle`. `stop` is called before every round and must
// return the same value on all ranks. If `stop` returns true, the function returns nothing.
template <class Of>
std::optional<std::invoke_result_t<Of&, int64_t>> compute_in_shares(Communicator& processes, int64_t count,
                                                                    Of of, const std::function<bool()>& stop,
                                                                    const char* what,
                                                                    const std::function<void()>& idle = {}) {
  using Results = std::invoke_result_t<Of&, int64_t>;
  Results all;
  for (int64_t round = 0; round < count; round += processes.size()) {
    if (stop()) return std::nullopt;
    const int64_t item = round + processes.rank();
    if (item >= count && idle) idle();
    const Results of_round = joined(processes, item < count ? of(item) : Results(), what);
    all.insert(all.end(), of_round.begin(), of_round.end());
  }
  return all;
}

// Like the function above, but cannot be stopped.
template <class Of>
std::invoke_result_t<Of&, int64_t> compute_in_shares(Communicator& processes, int64_t count, Of of,
                                                     const char* what) {
  return *compute_in_shares(
      processes, count, of, [] { return false; }, what);
}

// Returns the number of items that a rank should combine into one share: `count` divided by the number of
// ranks, rounded up, but at most `most`. With a single process, returns `count`.
int64_t share_size(const Communicator& processes, int64_t count, int64_t most);

}  // namespace gpt

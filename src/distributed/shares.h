#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "distributed/communicator.h"

namespace gpt {

// Work that does not depend on each other, divided among processes. What comes out has the order of the work
// and not of the processes, so sums over it have the same bits for any number of them.

// The numbers, or texts, of rank 0, behind them those of rank 1 and so on: the same in every process.
std::vector<double> joined(Communicator& processes, const std::vector<double>& own, const char* what);
std::vector<std::string> joined(Communicator& processes, const std::vector<std::string>& own,
                                const char* what);

// What `of` makes of item 0, behind it what it makes of item 1 and so on, in every process: vectors of
// numbers or texts. In a round each process has computed one item, or has called `idle` where there is none
// left for it. Nothing where `stop`, asked before every round and in agreement among all, says true.
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

// The same, to the end.
template <class Of>
std::invoke_result_t<Of&, int64_t> compute_in_shares(Communicator& processes, int64_t count, Of of,
                                                     const char* what) {
  return *compute_in_shares(
      processes, count, of, [] { return false; }, what);
}

// For items that are best computed in a row: how many of `count` are one share, `most` at most. All of them
// for a process by itself.
int64_t share_size(const Communicator& processes, int64_t count, int64_t most);

}  // namespace gpt

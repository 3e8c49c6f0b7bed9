#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributed/communicator.h"

namespace gpt {

// Work that does not depend on each other, divided among processes. What comes out has the order of the work
// and not of the processes, so sums over it have the same bits for any number of them.

// The numbers, or texts, of rank 0, behind them those of rank 1 and so on: the same in every process.
std::vector<double> joined(Communicator& processes, const std::vector<double>& own, const char* what);
std::vector<std::string> joined(Communicator& processes, const std::vector<std::string>& own,
                                const char* what);

// Of `count` items in a row the part that a process has: those of all ranks make up the whole.
struct ItemRange {
  int64_t begin = 0, end = 0;
};
ItemRange own_items(const Communicator& processes, int64_t count);

// The numbers of item 0, behind them those of item 1 and so on, in every process. In a round each process has
// computed one item. Nothing where `stop`, asked before every round and in agreement among all, says true.
std::optional<std::vector<double>> compute_in_shares(
    Communicator& processes, int64_t count, const std::function<std::vector<double>(int64_t)>& numbers_of,
    const std::function<bool()>& stop, const char* what);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "data/loader.h"

namespace gpt {

// Maps the index k of a sample in a run to the index of one of n examples. Each epoch contains every example
// once, in a random order that depends on (seed, epoch).
class ExampleOrder {
 public:
  ExampleOrder(int64_t n, uint64_t seed) : n_(n), seed_(seed) {}
  int64_t operator()(int64_t k) const {
    return KeyedPermutation(n_, seed_, static_cast<uint64_t>(k / n_))(k % n_);
  }
  int64_t size() const { return n_; }

 private:
  int64_t n_;
  uint64_t seed_;
};

// Returns the indices of the examples to hold out of n examples. The list of examples is split into intervals
// of equal length, and one random example is selected from each interval. The selection is therefore
// representative even if the examples are sorted by file or alternate between labels. The selection is the
// same for every seed, so that runs can be compared. If `share` is above 0 and there are at least two
// examples, at least one example is held out.
std::vector<int64_t> held_out(int64_t n, double share);

// Moves the examples selected by held_out from `examples` to `held`.
template <class Example>
void hold_out(std::vector<Example>& examples, std::vector<Example>& held, double share) {
  std::vector<Example> rest;
  const std::vector<int64_t> places = held_out(std::ssize(examples), share);
  auto next = places.begin();
  for (int64_t i = 0; i < std::ssize(examples); ++i) {
    const bool is_held = next != places.end() && *next == i;
    if (is_held) ++next;
    (is_held ? held : rest).push_back(std::move(examples[static_cast<size_t>(i)]));
  }
  examples = std::move(rest);
}

}  // namespace gpt

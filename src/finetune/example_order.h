#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "data/loader.h"

namespace gpt {

// Which of n examples is number k of a run: every epoch has each once, in an order keyed by (seed, epoch).
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

// The examples that are held out of n: of stretches of equal length one each, drawn, so that files in any
// order give some of each part, and files whose labels take turns some of each label. The same for every
// seed, so that runs compare. At least one of two or more, where the share is above 0.
std::vector<int64_t> held_out(int64_t n, double share);

// Moves these of `examples` to `held`.
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

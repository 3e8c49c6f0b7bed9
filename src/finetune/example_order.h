#pragma once

#include <cstdint>
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

// The examples that are held out of n: a share of them spread evenly, so that files in any order give some of
// each part. At least one of two or more, where the share is above 0.
std::vector<int64_t> held_out(int64_t n, double share);

}  // namespace gpt

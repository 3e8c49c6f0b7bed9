#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/proposer.h"

namespace gpt {

// Where the last tokens of a sequence stood before in it. It learns of a token once, however long the
// sequence is, and holds at most 1 MiB: of longer sequences it forgets n-grams by and by.
class NgramIndex {
 public:
  // The longest and the shortest run of last tokens that is looked up.
  static constexpr size_t kLongest = 4, kShortest = 2;

  // Where the latest earlier occurrence of the longest known run of last tokens ends: the index of the id
  // after it; 0: there is none. ids: those of the last call, and more.
  size_t find(std::span<const int32_t> ids);
  void clear();

 private:
  void learn(std::span<const int32_t> ids);
  uint32_t& entry(std::span<const int32_t> ngram);

  // By the hash of an n-gram: the index of the id after its latest occurrence; 0: none. Others may have the
  // same entry, so what it says is compared with the ids.
  std::vector<uint32_t> after_;
  size_t learned_ = 0;  // n-grams that end before this index are in
};

// Proposes what followed the last tokens of a sequence when they last stood in it: prompt look-up (Saxena
// 2023).
class NgramProposer final : public Proposer {
 public:
  explicit NgramProposer(int slots) : indices_(static_cast<size_t>(slots)) {}
  bool has(const Ask& ask) override { return index(ask.slot).find(ask.ids) > 0; }
  void propose(std::span<const Ask> asks) override;
  void forget(int slot) override { index(slot).clear(); }

 private:
  NgramIndex& index(int slot) { return indices_[static_cast<size_t>(slot)]; }

  std::vector<NgramIndex> indices_;  // by slot
};

}  // namespace gpt

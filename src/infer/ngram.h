#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/proposer.h"

namespace gpt {

// Finds earlier occurrences of the last tokens of a sequence. Indexes each token once and uses at most 1 MiB.
// In longer sequences, older n-grams are gradually overwritten.
class NgramIndex {
 public:
  // Lengths of the longest and the shortest n-gram to look up.
  static constexpr size_t kLongest = 4, kShortest = 2;

  // Looks up the longest known n-gram at the end of `ids`. Returns the index of the id that followed the
  // latest earlier occurrence of this n-gram, or 0 if there is none. `ids` must extend the ids of the last
  // call.
  size_t find(std::span<const int32_t> ids);
  void clear();

 private:
  void learn(std::span<const int32_t> ids);
  uint32_t& entry(std::span<const int32_t> ngram);

  // A hash table. The entry of an n-gram is the index of the id after the latest occurrence of this n-gram,
  // or 0. Different n-grams can share an entry, so every match is verified against the ids.
  std::vector<uint32_t> after_;
  size_t learned_ = 0;  // n-grams that end before this index are indexed
};

// Prompt lookup (Saxena 2023): drafts the tokens that followed the previous occurrence of the sequence's last
// tokens.
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

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

// Sequences ordered by what they begin with in common: the leaves of a tree are the different sequences, the
// nodes inside of it where they part.
class PrefixTree {
 public:
  struct Node {
    int64_t length = 0;             // of the sequence that it stands for
    size_t sequence = 0;            // one that begins with it
    std::vector<size_t> sequences;  // of a leaf: those that are equal to it
    std::vector<size_t> children;
  };

  explicit PrefixTree(std::span<const std::span<const int32_t>> sequences);

  const Node& node(size_t i) const { return nodes_[i]; }
  static constexpr size_t kRoot = 0;  // the empty beginning

 private:
  size_t add_leaf(size_t sequence, int64_t length);
  void close(std::vector<size_t>& open, size_t leaf, int64_t length);

  std::vector<Node> nodes_;
};

}  // namespace gpt

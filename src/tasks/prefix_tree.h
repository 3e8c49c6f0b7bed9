#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

// A tree of sequences and their common prefixes. A leaf is a distinct sequence. An inner node is a common
// prefix of several sequences, which differ after this prefix.
class PrefixTree {
 public:
  struct Node {
    int64_t length = 0;             // number of ids in the node's prefix
    size_t sequence = 0;            // index of a sequence that begins with the prefix
    std::vector<size_t> sequences;  // for a leaf: indices of the sequences equal to it
    std::vector<size_t> children;
  };

  explicit PrefixTree(std::span<const std::span<const int32_t>> sequences);

  const Node& node(size_t i) const { return nodes_[i]; }
  static constexpr size_t kRoot = 0;  // the empty prefix

 private:
  size_t add_leaf(size_t sequence, int64_t length);
  void close(std::vector<size_t>& open, size_t leaf, int64_t length);

  std::vector<Node> nodes_;
};

}  // namespace gpt

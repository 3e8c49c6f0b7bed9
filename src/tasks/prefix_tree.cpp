#include "tasks/prefix_tree.h"

#include <algorithm>
#include <numeric>

namespace gpt {

PrefixTree::PrefixTree(std::span<const std::span<const int32_t>> sequences) : nodes_(1) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::lexicographical_compare(sequences[a].begin(), sequences[a].end(), sequences[b].begin(),
                                        sequences[b].end());
  });
  std::vector<size_t> open = {kRoot};  // inner nodes on the path to the last leaf
  size_t leaf = kRoot;
  for (const size_t i : order) {
    const std::span<const int32_t> ids = sequences[i];
    if (leaf != kRoot) {
      const std::span<const int32_t> last = sequences[nodes_[leaf].sequence];
      const auto common =
          std::mismatch(last.begin(), last.end(), ids.begin(), ids.end()).first - last.begin();
      if (common == std::ssize(ids) && common == std::ssize(last)) {
        nodes_[leaf].sequences.push_back(i);
        continue;
      }
      close(open, leaf, common);
    }
    leaf = add_leaf(i, std::ssize(ids));
  }
  if (leaf != kRoot) close(open, leaf, 0);
}

size_t PrefixTree::add_leaf(size_t sequence, int64_t length) {
  nodes_.push_back({.length = length, .sequence = sequence, .sequences = {sequence}, .children = {}});
  return nodes_.size() - 1;
}

// Closes the open nodes whose prefix is longer than `length`, which is the length of the common prefix of the
// last leaf and the next leaf.
void PrefixTree::close(std::vector<size_t>& open, size_t leaf, int64_t length) {
  size_t child = leaf;
  while (nodes_[open.back()].length > length) {
    nodes_[open.back()].children.push_back(child);
    child = open.back();
    open.pop_back();
  }
  if (nodes_[open.back()].length < length) {
    nodes_.push_back({.length = length, .sequence = nodes_[child].sequence, .sequences = {}, .children = {}});
    open.push_back(nodes_.size() - 1);
  }
  nodes_[open.back()].children.push_back(child);
}

}  // namespace gpt

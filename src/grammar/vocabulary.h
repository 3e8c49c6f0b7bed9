#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {
class Tokenizer;
}

namespace gpt::grammar {

// A prefix tree of all tokens that can be part of constrained text. Immutable. One Vocabulary can be shared
// by all grammars of a tokenizer.
class Vocabulary {
 public:
  // `tokens` contains the bytes of each token, by id. A token without bytes is never allowed.
  explicit Vocabulary(std::vector<std::string> tokens);

  int64_t size() const { return std::ssize(tokens_); }
  std::string_view bytes_of(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }  // length of the longest token in bytes

  // A node of the prefix tree. Nodes are stored in depth-first order, and node 0 is the empty prefix. The
  // subtree of node n consists of the nodes n to nodes[n].end - 1.
  struct Node {
    int32_t end;
    // Index in ids() of the first token that ends at this node. The range ends at ids_begin of the next node.
    int32_t ids_begin;
    uint16_t depth;  // length of the prefix in bytes
    uint8_t byte;    // last byte of the prefix
  };
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  std::span<const int32_t> ids_at(int32_t node) const {
    const auto begin = static_cast<size_t>(nodes_[static_cast<size_t>(node)].ids_begin);
    return std::span(ids_).subspan(
        begin, static_cast<size_t>(nodes_[static_cast<size_t>(node) + 1].ids_begin) - begin);
  }
  bool has_token_at(int32_t node) const { return !ids_at(node).empty(); }
  int32_t child(int32_t node, uint8_t byte) const;  // returns -1 if there is no child

 private:
  std::vector<std::string> tokens_;
  std::vector<Node> nodes_;  // the last element only marks the end of the last node's ids
  std::vector<int32_t> ids_;
  size_t longest_ = 0;
};

// Creates the vocabulary of a tokenizer, limited to ids below vocab_size, the vocabulary size of the model.
// Contains the text tokens (Tokenizer::is_text) except the bos, eos, unk and pad tokens.
std::shared_ptr<const Vocabulary> make_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size);

}  // namespace gpt::grammar

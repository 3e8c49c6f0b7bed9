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

// The bytes of all tokens that can be part of a constrained text, as a tree of their beginnings. Immutable:
// one for each tokenizer serves any number of grammars.
class Vocabulary {
 public:
  // By id. Tokens without bytes are never part of a text.
  explicit Vocabulary(std::vector<std::string> tokens);

  int64_t size() const { return std::ssize(tokens_); }
  std::string_view bytes_of(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }  // token, in bytes

  // The tree in depth-first order; node 0 is the empty beginning. What begins with node n is n ..
  // nodes[n].end - 1.
  struct Node {
    int32_t end;
    int32_t ids_begin;  // of ids(): those whose bytes end at this node; they end where those of the next node
                        // begin
    uint16_t depth;     // bytes
    uint8_t byte;       // the last one
  };
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  std::span<const int32_t> ids_at(int32_t node) const {
    const auto begin = static_cast<size_t>(nodes_[static_cast<size_t>(node)].ids_begin);
    return std::span(ids_).subspan(
        begin, static_cast<size_t>(nodes_[static_cast<size_t>(node) + 1].ids_begin) - begin);
  }
  bool has_token_at(int32_t node) const { return !ids_at(node).empty(); }
  int32_t child(int32_t node, uint8_t byte) const;  // -1: none

 private:
  std::vector<std::string> tokens_;
  std::vector<Node> nodes_;  // one more than there are, for the end of the last one's ids
  std::vector<int32_t> ids_;
  size_t longest_ = 0;
};

// The tokens with ids below vocab_size, the model's, that are text (Tokenizer::is_text), but for those that
// begin and end texts.
std::shared_ptr<const Vocabulary> make_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size);

}  // namespace gpt::grammar

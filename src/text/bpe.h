#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/joints.h"
#include "text/merge_table.h"

namespace gpt {

// Byte-pair encoding over bytes (Sennrich et al. 2016; Radford et al. 2019). Consists of a vocabulary of byte
// strings and an ordered list of merges. Immutable and safe to share between threads.
class Bpe {
 public:
  struct Merge {
    int32_t left, right, result;  // token ids
  };

  // tokens[id] contains the bytes of a token, and is empty if the vocabulary has no such id. `merges` must be
  // sorted by rank. A byte without a token of its own is encoded as the id `unknown`. If `unknown` is -1,
  // such bytes are dropped, as in Hugging Face's tokenizers and llama.cpp. For example, Falcon's vocabulary
  // lacks 28 bytes. Throws Error for ids outside the vocabulary and for two tokens with the same bytes.
  Bpe(std::vector<std::string> tokens, std::vector<Merge> merges, int32_t unknown = -1);

  // Creates a BPE from a tiktoken vocabulary, in which the id of a token is its rank. Two adjacent tokens are
  // merged if their concatenation is a token, lowest rank first. Every byte must be a token. Throws Error if
  // the ids are probably not ranks.
  static Bpe of_ranks(std::vector<std::string> tokens);

  // Appends the ids of one piece of text. Merges the pair of adjacent tokens with the lowest rank until no
  // pair can be merged. If the pair occurs several times, its first occurrence is merged first. O(n log n).
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

  // Returns the end of a part of `piece` that can be merged independently. The part begins at byte `from` <
  // piece.size(), which must be the beginning of the piece or the end of a part. The ids of a piece are the
  // ids of its parts.
  size_t end_of_part(std::string_view piece, size_t from) const {
    return has_joints_ ? joints_.end_of_part(piece, from) : piece.size();
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<Merge>& merges() const { return merges_; }
  // Returns the id that replaces bytes without a token, or -1 if such bytes are dropped.
  int32_t unknown() const { return unknown_; }
  // Returns the token with these bytes, or -1.
  int32_t find(std::string_view bytes) const;

 private:
  explicit Bpe(std::vector<std::string> tokens);
  void find_joints();
  const std::string& bytes(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }

  std::vector<std::string> tokens_;
  std::vector<Merge> merges_;
  std::vector<int32_t> by_bytes_;  // ids sorted by their bytes
  MergeTable table_;
  int32_t byte_ids_[256];  // id of each byte; -1: no token
  bool has_all_bytes_ = true;
  int32_t unknown_ = -1;
  detail::Joints joints_;
  bool has_joints_ = false;  // false if bytes without a token are dropped from texts
};

// Builds a merge table from merges sorted by rank. Throws Error for ids outside the vocabulary and for a
// merge whose result is not the concatenation of its two tokens.
MergeTable merge_table(const std::vector<Bpe::Merge>& merges, const std::vector<std::string_view>& tokens);

// If several merges have the same two tokens, removes all of them except the last, as in Hugging Face's
// tokenizers.
void keep_last_of_equal(std::vector<Bpe::Merge>& merges);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/joints.h"
#include "text/merge_table.h"

namespace gpt {

// Byte-pair encoding over bytes (Sennrich et al. 2016; Radford et al. 2019): a vocabulary of byte strings and
// an ordered list of merges. Immutable: safe to share between threads.
class Bpe {
 public:
  struct Merge {
    int32_t left, right, result;  // ids
  };

  // tokens[id]: the bytes of a token, empty where the vocabulary has no such id. Merges in order of rank.
  // A byte without a token of its own becomes the id `unknown`, or is left out of texts if that is -1, as
  // Hugging Face's tokenizers and llama.cpp do: Falcon lacks 28 of them. Throws Error for ids outside of the
  // vocabulary and for two tokens with the same bytes.
  Bpe(std::vector<std::string> tokens, std::vector<Merge> merges, int32_t unknown = -1);

  // What tiktoken makes of tokens whose ids are their ranks: any two that give a token are merged, those of
  // the lowest rank first. Every byte must be a token. Throws Error for tokens that most likely are no ranks.
  static Bpe of_ranks(std::vector<std::string> tokens);

  // Appends the ids of one piece of text: its bytes, of which the pair with the lowest rank is merged, the
  // first one where it occurs several times, until none is left. O(n log n).
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

  // The end of a part of a piece, from byte `from` < piece.size() on, if one ended there: the ids of a piece
  // are those of its parts.
  size_t end_of_part(std::string_view piece, size_t from) const {
    return has_joints_ ? joints_.end_of_part(piece, from) : piece.size();
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<Merge>& merges() const { return merges_; }
  // The id of bytes without a token, or -1 if there are none.
  int32_t unknown() const { return unknown_; }
  // The token with these bytes, or -1.
  int32_t find(std::string_view bytes) const;

 private:
  explicit Bpe(std::vector<std::string> tokens);
  void find_joints();
  const std::string& bytes(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }

  std::vector<std::string> tokens_;
  std::vector<Merge> merges_;
  std::vector<int32_t> by_bytes_;  // ids in order of their bytes
  MergeTable table_;
  int32_t byte_ids_[256];  // -1: none
  bool has_all_bytes_ = true;
  int32_t unknown_ = -1;
  detail::Joints joints_;
  bool has_joints_ = false;  // not where bytes without tokens let others meet
};

// Merges in order of rank as a table. Throws Error for ids outside of the vocabulary and for a merge that
// gives another token than its two make.
MergeTable merge_table(const std::vector<Bpe::Merge>& merges, const std::vector<std::string_view>& tokens);

// Of merges of the same two tokens only the last one counts, as in Hugging Face's tokenizers.
void keep_last_of_equal(std::vector<Bpe::Merge>& merges);

}  // namespace gpt

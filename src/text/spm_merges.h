#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merge_table.h"
#include "text/spm_tokenizer.h"

namespace gpt::detail {

// What a SentencePiece BPE merges. A symbol is the id of a piece; or, from the size of the vocabulary on, a
// character that is no piece but a part of one; or below -1 any other character.
class SpmMerges {
 public:
  // By score: two pieces are merged if they make a piece, those first whose piece has the highest score.
  // Otherwise as the list says. Throws Error for equal pieces, pieces of more than 256 bytes that would have
  // to be merged, scores that are not finite, and lists that contradict the pieces.
  SpmMerges(const std::vector<SpmParts::Piece>& pieces, bool by_score, const std::vector<Bpe::Merge>& list);

  const MergeTable& table() const { return table_; }
  int32_t symbol_of(char32_t code) const { return by_code_[code]; }
  bool is_token(int32_t symbol) const {
    return symbol >= 0 && symbol < std::ssize(used_) && used_[static_cast<size_t>(symbol)];
  }
  // The character of a symbol that is no token.
  char32_t code_of(int32_t symbol) const;
  // The halves of a piece that takes part in merges, but must not be in a result; false if there are none.
  bool divide(int32_t symbol, std::vector<int32_t>& halves) const;

  // Whether all merges leave the beginning of a run of blanks alone.
  bool words_divide() const { return words_divide_; }

  // All merges, in order of rank.
  const std::vector<Bpe::Merge>& list() const { return list_; }
  // Scores from which the same merges come. Throws Error if there are none.
  std::vector<float> scores(const std::vector<SpmParts::Piece>& pieces) const;

 private:
  using Index = std::unordered_map<std::string_view, int32_t>;
  void add_characters(const std::vector<SpmParts::Piece>& pieces, bool parts_too);
  void merge_by_score(const std::vector<SpmParts::Piece>& pieces, const Index& index);
  void merge_by_list(const std::vector<SpmParts::Piece>& pieces, const std::vector<Bpe::Merge>& list);

  MergeTable table_;
  std::vector<Bpe::Merge> list_;
  std::vector<int32_t> by_code_;
  std::vector<char32_t> parts_;  // characters that are no pieces, by symbol
  std::vector<bool> used_;       // by id: may be in a result
  std::unordered_map<int32_t, Bpe::Merge> unused_;
  bool by_score_ = true;
  bool words_divide_ = true;
};

}  // namespace gpt::detail

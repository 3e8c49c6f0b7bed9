#pragma once

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
  // The character of a symbol that is no piece.
  char32_t code_of(int32_t symbol) const;
  bool is_piece(int32_t symbol) const { return symbol >= 0 && symbol < std::ssize(used_); }
  // The halves of a piece that takes part in merges, but must not be in a result; false if there are none.
  bool divide(int32_t symbol, std::vector<int32_t>& halves) const;

  // The end of what begins at byte `at` < text.size() and is merged on its own: no piece has the two
  // characters on both sides of it next to each other. A blank after something else is such a place in any
  // usual vocabulary.
  size_t chunk_end(std::string_view text, size_t at) const;

  // Whether a blank behind this ASCII character is such a place.
  bool blank_divides(char last) const {
    return adjacent_[static_cast<unsigned char>(last) * kClasses + kBlankClass] == 0;
  }

  // All merges, in order of rank.
  const std::vector<Bpe::Merge>& list() const { return list_; }
  // Scores from which the same merges come. Throws Error if there are none.
  std::vector<float> scores(const std::vector<SpmParts::Piece>& pieces) const;

 private:
  using Index = std::unordered_map<std::string_view, int32_t>;
  void add_characters(const std::vector<SpmParts::Piece>& pieces, bool parts_too);
  void merge_by_score(const std::vector<SpmParts::Piece>& pieces, const Index& index);
  void find_adjacent(const std::vector<SpmParts::Piece>& pieces);
  void merge_by_list(const std::vector<SpmParts::Piece>& pieces, const std::vector<Bpe::Merge>& list);

  MergeTable table_;
  std::vector<Bpe::Merge> list_;
  std::vector<int32_t> by_code_;
  std::vector<char32_t> parts_;  // characters that are no pieces, by symbol
  std::vector<bool> used_;       // by id: may be in a result
  std::unordered_map<int32_t, Bpe::Merge> unused_;
  bool by_score_ = true;
  // Whether a piece has characters of two classes next to each other: ASCII, U+2581, and all others.
  static constexpr size_t kClasses = 130, kBlankClass = 128;
  static size_t class_of(std::string_view text, size_t at);
  std::vector<uint8_t> adjacent_;  // [kClasses, kClasses]
};

}  // namespace gpt::detail

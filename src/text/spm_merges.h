#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merge_table.h"
#include "text/spm_tokenizer.h"

namespace gpt::detail {

// The merges of a SentencePiece BPE. A symbol from 0 to the vocabulary size - 1 is the id of a piece. A
// larger symbol stands for a character that occurs in a piece, but is not a piece itself. A symbol below -1
// stands for any other character.
class SpmMerges {
 public:
  // If `by_score` is true, two pieces are merged if their concatenation is a piece. The piece with the
  // highest score is merged first. If `by_score` is false, `list` contains the merges. Throws Error for
  // duplicate pieces, non-finite scores, and lists that contradict the pieces. Also throws Error if
  // `by_score` is true and a piece that merges can produce has more than 256 bytes.
  SpmMerges(const std::vector<SpmParts::Piece>& pieces, bool by_score, const std::vector<Bpe::Merge>& list);

  const MergeTable& table() const { return table_; }
  int32_t symbol_of(char32_t code) const { return by_code_[code]; }
  bool is_token(int32_t symbol) const {
    return symbol >= 0 && symbol < std::ssize(used_) && used_[static_cast<size_t>(symbol)];
  }
  // Returns the character that a symbol represents. The symbol must not be a piece.
  char32_t code_of(int32_t symbol) const;
  bool is_piece(int32_t symbol) const { return symbol >= 0 && symbol < std::ssize(used_); }
  // Splits a piece into the two halves from which it is merged. Only splits pieces that must not be in the
  // result, and returns false for all other pieces.
  bool divide(int32_t symbol, std::vector<int32_t>& halves) const;

  // Returns the end of the chunk that begins at byte `at` < text.size() and can be merged independently. A
  // chunk ends between two characters that are not adjacent in any piece. With a typical vocabulary, a chunk
  // ends before every space that follows a character other than a space.
  size_t chunk_end(std::string_view text, size_t at) const;

  // Returns true if a chunk ends before a space that follows this ASCII character.
  bool blank_divides(char last) const {
    return adjacent_[static_cast<unsigned char>(last) * kClasses + kBlankClass] == 0;
  }

  // All merges, in order of rank.
  const std::vector<Bpe::Merge>& list() const { return list_; }
  // Returns scores that lead to the same merges. Throws Error if there are no such scores.
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
  std::vector<char32_t> parts_;  // by symbol: characters that are part of pieces, but not pieces
  std::vector<bool> used_;       // by id: true if the piece can be in the result
  std::unordered_map<int32_t, Bpe::Merge> unused_;
  bool by_score_ = true;
  // adjacent_[a, b] is 1 if some piece has a character of class a followed by a character of class b. The
  // classes are the ASCII characters, U+2581, and all other characters.
  static constexpr size_t kClasses = 130, kBlankClass = 128;
  static size_t class_of(std::string_view text, size_t at);
  std::vector<uint8_t> adjacent_;  // [kClasses, kClasses]
};

}  // namespace gpt::detail

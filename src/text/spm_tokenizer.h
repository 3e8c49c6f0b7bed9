#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/vocab_data.h"

namespace gpt::detail {

// The character that represents a space in SentencePiece vocabularies, U+2581.
inline constexpr std::string_view kBlank = "\xE2\x96\x81";

// The parts of a BPE over characters in which U+2581 represents a space. Unknown characters can be encoded as
// bytes. SpmParts can represent SentencePiece models and their Hugging Face conversions.
struct SpmParts {
  using Type = VocabData::TokenType;
  struct Piece {
    std::string text;  // empty for an unused id
    float score = 0;
    Type type = Type::normal;
  };
  // Selects to which parts of a text a space is prepended. Added tokens divide the text into parts.
  // SentencePiece only prepends a space at the beginning of the text. Hugging Face tokenizers may prepend a
  // space to every part.
  enum class Prefix : uint8_t { never, at_begin, every_part };
  // The leading space that `decode` removes.
  enum class Strip : uint8_t {
    none,
    sentencepiece,  // a space at the beginning of the first piece that is not a control piece
    first_byte,     // a space at the beginning of the decoded text
    first_token,    // all spaces in the first token
  };

  std::vector<Piece> pieces;  // by id
  // Tokens that are matched in the original text before any other step. User-defined pieces are not included.
  // User-defined pieces are matched later, after spaces have become U+2581, and are never merged.
  std::vector<AddedToken> added;
  bool by_score = true;                     // true: merges are derived from scores; false: `merges` is used
  std::vector<Bpe::Merge> merges;           // merges in order of rank, if by_score is false
  SpecialIds special;                       // unk replaces unknown characters if there are no byte pieces
  std::optional<std::string> unknown_text;  // decoded text of unk; by default the text of its piece
  Prefix prefix = Prefix::every_part;
  bool prefix_once = false;      // true if no space is prepended to a part that begins with a space
  bool collapse_blanks = false;  // true if spaces at both ends and repeated spaces are removed
  bool fuse_unknown = true;      // true if consecutive unknown characters become one token
  // True if all pieces <0x00> to <0xFF> decode to bytes. If byte_decoder is not set, only pieces of type byte
  // decode to bytes.
  std::optional<bool> byte_decoder;
  bool split_words = false;  // true if no merge crosses the position before a space
  Strip strip = Strip::sentencepiece;
};

// Throws Error if the parts contradict each other.
std::unique_ptr<Tokenizer> make_spm_tokenizer(SpmParts parts);

// Returns the parts of a vocabulary whose model is "llama". Throws Error with the file name.
SpmParts spm_parts(const VocabData& data, const std::string& name);

// Returns a copy of the text in which each `from` is replaced by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// Returns the byte of a piece <0x00> to <0xFF>, or -1 for other pieces.
int byte_of_piece(std::string_view piece);

bool is_one_character(std::string_view text);

// Returns SpmParts as a Hugging Face tokenizer.json in the style of Llama. Throws Error if a tokenizer.json
// cannot represent the parts.
std::string spm_json(const SpmParts& parts, const std::vector<Bpe::Merge>& merges);

}  // namespace gpt::detail

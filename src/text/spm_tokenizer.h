#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/vocab_data.h"

namespace gpt::detail {

// The character that stands for a blank in SentencePiece's vocabularies, U+2581.
inline constexpr std::string_view kBlank = "\xE2\x96\x81";

// A BPE over characters in which U+2581 stands for a blank, with bytes for characters that it does not know:
// SentencePiece's own and what Hugging Face makes of it.
struct SpmParts {
  using Type = VocabData::TokenType;
  struct Piece {
    std::string text;  // empty: no token has this id
    float score = 0;
    Type type = Type::normal;
  };
  // Where a blank is put in front: SentencePiece has one text only, Hugging Face many between added tokens.
  enum class Prefix : uint8_t { never, at_begin, every_part };
  // The blank at the beginning that `decode` takes away.
  enum class Strip : uint8_t {
    none,
    sentencepiece,  // of the first piece that is not a control piece
    first_byte,     // of the whole text
    first_token,    // all blanks of the first token
  };

  std::vector<Piece> pieces;  // by id
  // Tokens found in a text before anything else. User-defined pieces are none of them: they are found
  // afterwards, among the characters with U+2581 for blanks, and never merged.
  std::vector<AddedToken> added;
  bool by_score = true;                     // what merges and when: pieces by their scores, or a list
  std::vector<Bpe::Merge> merges;           // that list
  SpecialIds special;                       // unk: what stands for unknown characters without bytes
  std::optional<std::string> unknown_text;  // what unk decodes to; its own text if there is none
  Prefix prefix = Prefix::every_part;
  bool prefix_once = false;      // not where a part begins with a blank anyway
  bool collapse_blanks = false;  // blanks at both ends and repeated ones go
  bool fuse_unknown = true;      // one token for unknown characters in a row
  // Whether all pieces <0x00> to <0xFF> decode to bytes; if unset, those of type byte do.
  std::optional<bool> byte_decoder;
  bool split_words = false;  // nothing is merged across the beginning of a blank
  Strip strip = Strip::sentencepiece;
};

// Throws Error for contradictions between the parts.
std::unique_ptr<Tokenizer> make_spm_tokenizer(SpmParts parts);

// The parts that a vocabulary of model "llama" stands for. Throws Error naming the file.
SpmParts spm_parts(const VocabData& data, const std::string& name);

// A text with `to` wherever it has `from`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// The byte of a piece <0x00> to <0xFF>, otherwise -1.
int byte_of_piece(std::string_view piece);

bool is_one_character(std::string_view text);

// SpmParts as Hugging Face's tokenizer.json for Llama. Throws Error where it has no way to say the same.
std::string spm_json(const SpmParts& parts, const std::vector<Bpe::Merge>& merges);

}  // namespace gpt::detail

#include "base/error.h"
#include "text/spm_tokenizer.h"

namespace gpt::detail {

SpmParts spm_parts(const VocabData& data, const std::string& name) {
  using enum VocabData::TokenType;
  if (data.scores.empty()) fail("cannot read {}: a SentencePiece vocabulary needs scores, found none", name);
  SpmParts parts;
  parts.special = data.special;
  parts.prefix =
      data.add_space_prefix.value_or(true) ? SpmParts::Prefix::every_part : SpmParts::Prefix::never;
  parts.strip_decoded = parts.prefix != SpmParts::Prefix::never;
  parts.collapse_blanks = data.remove_extra_whitespaces.value_or(false);
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    // Without types, bytes are known by their spelling.
    auto type = data.types.empty() ? normal : static_cast<VocabData::TokenType>(data.types[id]);
    const auto n = static_cast<int64_t>(id);
    if (data.types.empty()) {
      if (byte_of_piece(data.tokens[id]) >= 0) type = byte;
      if (n == data.special.unk) type = unknown;
      if (n == data.special.bos || n == data.special.eos || n == data.special.pad) type = control;
    }
    if (type == unknown && parts.special.unk < 0) parts.special.unk = n;
    if (data.tokens[id].empty()) fail("cannot read {}: token {} is empty", name, id);
    parts.pieces.push_back({data.tokens[id], data.scores[id], type});
    if (type == control || type == unknown)
      parts.added.push_back({.id = static_cast<int32_t>(id), .text = data.tokens[id], .special = true});
  }
  return parts;
}

}  // namespace gpt::detail

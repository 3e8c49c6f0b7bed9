#include "text/vocab_data.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe_tokenizer.h"
#include "text/byte_level.h"
#include "text/pre_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/token_index.h"
#include "text/tokenizer_kinds.h"

namespace gpt {
namespace {

using detail::BpeParts;
using detail::kMaxVocab;
using TokenType = VocabData::TokenType;

TokenType type_of(const VocabData& data, size_t id) {
  return data.types.empty() ? TokenType::normal : static_cast<TokenType>(data.types[id]);
}

void check_special(const VocabData& data, const std::string& name) {
  const SpecialIds& s = data.special;
  for (const auto& [what, id] :
       {std::pair("BOS", s.bos), {"EOS", s.eos}, {"unknown", s.unk}, {"padding", s.pad}}) {
    if (id >= -1 && id < std::ssize(data.tokens)) continue;
    fail("cannot read {}: the {} token has the id {}; expected 0 to {}", name, what, id,
         data.tokens.size() - 1);
  }
}

void check(const VocabData& data, const std::string& name) {
  const size_t count = data.tokens.size();
  if (count == 0 || count > kMaxVocab)
    fail("cannot read {}: expected a vocabulary of 1 to {} tokens, found {}", name, kMaxVocab, count);
  for (const auto& [what, size] : {std::pair("score", data.scores.size()), {"type", data.types.size()}}) {
    if (size != 0 && size != count)
      fail("cannot read {}: expected one {} for each of {} tokens, found {}", name, what, count, size);
  }
  for (size_t id = 0; id < data.types.size(); ++id) {
    if (data.types[id] >= 1 && data.types[id] <= 6) continue;
    fail("cannot read {}: token {} has the type {}; expected 1 to 6", name, id, data.types[id]);
  }
  check_special(data, name);
}

bool is_special_id(const VocabData& data, size_t id) {
  const auto n = static_cast<int64_t>(id);
  const SpecialIds& s = data.special;
  return n == s.bos || n == s.eos || n == s.unk || n == s.pad;
}

BpeParts bpe_parts(const VocabData& data, const std::string& name) {
  BpeParts parts;
  const auto pattern = pattern_of_gguf_name(data.pre);
  parts.steps = detail::steps_of_gguf_name(data.pre);
  if (!pattern && parts.steps.empty())
    fail_unsupported("cannot read {}: tokenizer.ggml.pre \"{}\" is not supported; expected one of {}", name,
                     printable_text(data.pre, 40), fmt::join(detail::gguf_split_names(), ", "));
  parts.pattern = pattern.value_or(SplitPattern::gpt2);
  parts.ignore_merges = pattern == SplitPattern::llama3 || data.pre == "tekken";
  parts.special = data.special;
  parts.nfc = data.pre == "qwen2";  // Qwen2's tokenizer.json also has NFC
  parts.tokens.resize(data.tokens.size());
  const detail::AlphabetReader alphabet;
  detail::TokenIndex index(name);
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const std::string& token = data.tokens[id];
    const TokenType type = type_of(data, id);
    // If the file has no token types, the tokens with one of the special ids are special tokens.
    if (type == TokenType::normal && !(data.types.empty() && is_special_id(data, id))) {
      auto bytes = alphabet.bytes_of(token);
      if (!bytes || bytes->empty()) {
        fail("cannot read {}: token {}, \"{}\", has characters that do not represent a byte", name, id,
             printable_text(token, 40));
      }
      parts.tokens[id] = *std::move(bytes);
      index.add(token, static_cast<int32_t>(id));
    } else {
      // A user-defined token may also be the result of a merge.
      if (auto bytes = alphabet.bytes_of(token); bytes && type == TokenType::user_defined) {
        parts.tokens[id] = *std::move(bytes);
        index.add(token, static_cast<int32_t>(id));
      }
      parts.added.push_back({.id = static_cast<int32_t>(id),
                             .text = token,
                             .special = type != TokenType::user_defined,
                             .unused = type == TokenType::unused || type == TokenType::byte});
    }
  }
  for (size_t i = 0; i < data.merges.size(); ++i)
    parts.merges.push_back(index.merge(data.merges[i], i));
  return parts;
}

}  // namespace

VocabData Tokenizer::vocab_data() const {
  fail(
      "a tokenizer of kind {} cannot be written to a GGUF file: expected a byte, character, byte-level BPE "
      "or SentencePiece tokenizer",
      kind());
}

std::unique_ptr<Tokenizer> tokenizer_of(const VocabData& data, const std::string& name) {
  check(data, name);
  if (data.model == "rwkv") return detail::char_tokenizer_of(data, name);
  if (data.model != "gpt2" && data.model != "llama") {
    fail_unsupported(
        "cannot read {}: tokenizer.ggml.model \"{}\" is not supported; expected one of gpt2, llama, rwkv",
        name, printable_text(data.model, 40));
  }
  if (data.model == "llama") {
    detail::SpmParts parts = detail::spm_parts(data, name);
    return detail::naming_file(name, [&] { return detail::make_spm_tokenizer(std::move(parts)); });
  }
  BpeParts parts = bpe_parts(data, name);
  return detail::naming_file(name, [&] { return detail::make_bpe_tokenizer(std::move(parts)); });
}

}  // namespace gpt

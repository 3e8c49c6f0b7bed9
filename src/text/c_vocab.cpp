#include "text/c_vocab.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/token_index.h"
#include "text/tokenizer_kinds.h"
#include "text/vocab_data.h"

namespace gpt {
namespace {

using detail::kMaxVocab;
using Type = VocabData::TokenType;

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kLlmcMagic = 20240328;
constexpr size_t kLlmcHeader = 256 * sizeof(uint32_t);
constexpr uint32_t kGpt2End = 50256;      // end-of-text id; not stored in files of version 1
constexpr uint32_t kLongestPiece = 4096;  // in bytes; published vocabularies have up to 48

// The texts of the begin and end tokens in llama2.c.
constexpr std::string_view kBegin = "\n<s>\n", kEnd = "\n</s>\n";
constexpr int kFirstByte = 3;  // id at which llama2.c's program expects <0x00>

template <class T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append_number(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

uint32_t llmc_end(std::string_view bytes, uint32_t count, const std::string& name) {
  const auto version = number_at<uint32_t>(bytes, 4);
  if (version != 1 && version != 2)
    fail("cannot read {}: expected version 1 or 2 of llm.c's tokenizer format, found {}", name, version);
  const uint32_t end = version == 1 ? kGpt2End : number_at<uint32_t>(bytes, 12);
  if (end >= count)
    fail("cannot read {}: the id of the end-of-text token is {}; expected 0 to {}", name, end,
         int64_t{count} - 1);
  return end;
}

// One piece of a tokenizer.bin. piece_at() reads the piece that begins at byte `at`.
struct Llama2cPiece {
  float score;
  std::string_view text;
};
Llama2cPiece piece_at(std::string_view bytes, size_t at, size_t id, uint32_t longest,
                      const std::string& name) {
  if (bytes.size() - at < 8) {
    fail(
        "cannot read {}: the file ends within piece {}: expected 8 bytes of score and length at byte {}, "
        "found {}",
        name, id, at, bytes.size() - at);
  }
  const auto length = number_at<uint32_t>(bytes, at + 4);
  if (length == 0 || length > longest)
    fail("cannot read {}: piece {} has {} bytes; expected 1 to {}", name, id, length, longest);
  if (length > bytes.size() - at - 8) {
    fail("cannot read {}: piece {} has {} bytes at byte {}, which exceeds the end of the file", name, id,
         length, at + 8);
  }
  return {number_at<float>(bytes, at), bytes.substr(at + 8, length)};
}

void add_piece(VocabData& data, const Llama2cPiece& piece) {
  const auto id = std::ssize(data.tokens);
  Type type = Type::normal;
  std::string text = detail::replaced(piece.text, " ", detail::kBlank);
  if (id == 0 && text == "<unk>") {
    type = Type::unknown;
    data.special.unk = id;
  } else if (id == 1 && piece.text == kBegin) {
    type = Type::control;
    text = "<s>";
    data.special.bos = id;
  } else if (id == 2 && piece.text == kEnd) {
    type = Type::control;
    text = "</s>";
    data.special.eos = id;
  } else if (detail::byte_of_piece(text) >= 0) {
    type = Type::byte;
  }
  data.tokens.push_back(std::move(text));
  data.scores.push_back(piece.score);
  data.types.push_back(static_cast<int32_t>(type));
}

}  // namespace

namespace detail {

bool is_llmc_tokenizer(std::string_view bytes) {
  return bytes.size() >= kLlmcHeader && number_at<uint32_t>(bytes, 0) == kLlmcMagic;
}

std::unique_ptr<Tokenizer> read_llmc_tokenizer(std::string_view bytes, const std::string& name) {
  if (!is_llmc_tokenizer(bytes)) {
    fail("cannot read {}: expected a header of {} bytes that begins with the number {}", name, kLlmcHeader,
         kLlmcMagic);
  }
  const auto count = number_at<uint32_t>(bytes, 8);
  if (count == 0 || count > kMaxVocab || count > bytes.size() - kLlmcHeader) {
    fail("cannot read {}: a vocabulary of {} tokens in {} bytes; expected 1 to {} tokens", name, count,
         bytes.size() - kLlmcHeader, kMaxVocab);
  }
  const uint32_t end = llmc_end(bytes, count, name);
  BpeParts parts{.ranks = true};
  parts.ignore_merges = true;  // as for tiktoken files
  parts.special = {.bos = end, .eos = end};
  size_t at = kLlmcHeader;
  for (uint32_t id = 0; id < count; ++id) {
    const size_t left = bytes.size() - at;
    const size_t length = left == 0 ? 0 : static_cast<unsigned char>(bytes[at]);
    if (left < 1 + length) fail("cannot read {}: the file ends within token {} of {}", name, id, count);
    parts.tokens.emplace_back(bytes.substr(at + 1, length));
    at += 1 + length;
  }
  if (at != bytes.size())
    fail("cannot read {}: {} bytes follow the last of {} tokens", name, bytes.size() - at, count);
  if (parts.tokens[end].empty()) fail("cannot read {}: the end-of-text token {} is empty", name, end);
  parts.added.push_back(
      {.id = static_cast<int32_t>(end), .text = std::move(parts.tokens[end]), .special = true});
  parts.tokens[end].clear();
  return naming_file(name, [&] { return make_bpe_tokenizer(std::move(parts)); });
}

std::unique_ptr<Tokenizer> read_llama2c_tokenizer(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 4)
    fail("cannot read {}: expected a tokenizer.bin of llama2.c, found {} bytes", name, bytes.size());
  const auto longest = number_at<uint32_t>(bytes, 0);
  if (longest == 0 || longest > kLongestPiece) {
    fail(
        "cannot read {}: the maximum piece length in its header is {} bytes; expected 1 to {} in a "
        "tokenizer.bin of llama2.c",
        name, longest, kLongestPiece);
  }
  VocabData data{.model = "llama"};
  for (size_t at = 4; at < bytes.size();) {
    if (std::ssize(data.tokens) >= kMaxVocab) fail("cannot read {}: more than {} pieces", name, kMaxVocab);
    const Llama2cPiece piece = piece_at(bytes, at, data.tokens.size(), longest, name);
    add_piece(data, piece);
    at += 8 + piece.text.size();
  }
  return tokenizer_of(data, name);
}

}  // namespace detail

std::string llmc_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<int32_t> end;  // only for BPE, because a char tokenizer may lack these letters
  if (tokenizer.kind() == "bpe") end = tokenizer.encode_special("<|endoftext|>");
  if (end.size() != 1)
    fail("llm.c: expected a byte-level BPE tokenizer with <|endoftext|>, found kind {}", tokenizer.kind());
  uint32_t header[256] = {kLlmcMagic, 2, static_cast<uint32_t>(vocab_size), static_cast<uint32_t>(end[0])};
  std::string out(reinterpret_cast<const char*>(header), sizeof header);
  const VocabData data = tokenizer.vocab_data();
  for (int64_t id = 0; id < vocab_size; ++id) {
    const auto i = static_cast<size_t>(id);
    const bool there = i < data.tokens.size() && data.types[i] != static_cast<int32_t>(Type::unused);
    const std::string bytes = there ? tokenizer.token_bytes(static_cast<int32_t>(id)) : "";
    if (bytes.size() > 255)
      fail("llm.c supports tokens of at most 255 bytes, but token {} has {}", id, bytes.size());
    out += static_cast<char>(bytes.size());
    out += bytes;
  }
  return out;
}

std::string llama2c_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size) {
  if (tokenizer.kind() != "sentencepiece")
    fail("llama2.c: expected a SentencePiece tokenizer, found kind {}", tokenizer.kind());
  const VocabData data = tokenizer.vocab_data();
  std::string pieces;
  size_t longest = 0;
  for (int64_t id = 0; id < vocab_size; ++id) {
    const auto i = static_cast<size_t>(id);
    const bool there = i < data.tokens.size();
    const int byte = there ? detail::byte_of_piece(data.tokens[i]) : -1;
    if (byte >= 0 && data.types[i] == static_cast<int32_t>(Type::byte) && id != byte + kFirstByte)
      fail("llama2.c requires byte {} to be token {}, but it is token {}", byte, byte + kFirstByte, id);
    std::string text =
        there ? detail::replaced(data.tokens[i], detail::kBlank, " ") : fmt::format("[PAD{}]", id);
    if (id == 1 && id == data.special.bos) text = kBegin;
    if (id == 2 && id == data.special.eos) text = kEnd;
    if (text.size() > kLongestPiece)
      fail("llama2.c supports tokens of at most {} bytes, but token {} has {}", kLongestPiece, id,
           text.size());
    longest = std::max(longest, text.size());
    append_number(pieces, there ? data.scores[i] : 0.0f);
    append_number(pieces, static_cast<uint32_t>(text.size()));
    pieces += text;
  }
  std::string out;
  append_number(out, static_cast<uint32_t>(longest));
  return out + pieces;
}

}  // namespace gpt

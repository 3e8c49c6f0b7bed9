#include "text/spm_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/parallel_encode.h"
#include "text/piece_cache.h"
#include "text/spm_merges.h"
#include "text/tokenizer_kinds.h"

namespace gpt::detail {
namespace {

using Type = SpmParts::Type;

std::string with_blanks(std::string_view piece) {
  return replaced(piece, kBlank, " ");
}

class SpmTokenizer final : public Tokenizer {
 public:
  explicit SpmTokenizer(SpmParts parts)
      : parts_(std::move(parts)),
        added_(parts_.added),
        merges_(parts_.pieces, parts_.by_score, parts_.merges) {
    std::vector<AddedToken> user;
    for (size_t id = 0; id < parts_.pieces.size(); ++id) {
      const SpmParts::Piece& piece = parts_.pieces[id];
      if (piece.type == Type::byte) add_byte(piece.text, id);
      if (piece.type == Type::user_defined && added_.find(static_cast<int32_t>(id)) == nullptr)
        user.push_back({.id = static_cast<int32_t>(id), .text = piece.text, .special = false});
    }
    if (parts_.collapse_blanks) kept_ = AddedTokens(user);
    // A Metaspace is not a normalizer. If the tokenizer has a Metaspace, normalized tokens are matched in the
    // original text, after all other tokens.
    AddedTokens normalized = added_.normalized([&](const std::string& text) {
      return parts_.prefix_once ? text : normalize(text, parts_.prefix == SpmParts::Prefix::every_part);
    });
    if (parts_.prefix_once) {
      later_ = std::move(normalized);
    } else {
      user.insert(user.end(), normalized.tokens().begin(), normalized.tokens().end());
    }
    for (const AddedToken& token : user) {
      // Text is cut before spaces. A token with a space after another character may match across such a cut.
      // A token that only consists of spaces cannot.
      const std::string bytes = with_blanks(token.text);
      if (bytes.find(' ', 1) != std::string::npos && bytes.find_first_not_of(' ') != std::string::npos)
        blanks_divide_ = false;
    }
    user_ = AddedTokens(std::move(user));
    has_bytes_ = bytes_found_ > 0;
    if (has_bytes_ && bytes_found_ != 256) fail("expected 256 byte pieces or none, found {}", bytes_found_);
  }

  std::string_view kind() const override { return "sentencepiece"; }
  int64_t vocab_size() const override { return std::ssize(parts_.pieces); }
  SpecialIds special_ids() const override { return parts_.special; }

  std::vector<int32_t> encode(std::string_view text) const override { return encode(text, {}, true); }
  std::vector<int32_t> encode_trusted(std::string_view text,
                                      std::span<const TextRange> trusted) const override {
    return encode(text, trusted, true);
  }

  std::vector<int32_t> encode_parallel(std::string_view text, ThreadPool& pool) const override {
    const bool serial =
        pool.size() == 1 || parts_.collapse_blanks || !added_.blanks_divide() || !blanks_divide_;
    if (serial) return encode(text);
    const auto may_cut = [&](char last) { return last > ' ' && last < 0x7F && merges_.blank_divides(last); };
    return encode_parts(text, pool, may_cut,
                        [&](std::string_view part, bool begins) { return encode(part, {}, begins); });
  }

  std::string token_bytes(int32_t id) const override {
    const SpmParts::Piece& piece = piece_of(id);
    const int byte = byte_of_piece(piece.text);
    if (byte >= 0 && parts_.byte_decoder.value_or(piece.type == Type::byte))
      return std::string(1, static_cast<char>(byte));
    if (piece.type == Type::unknown) return parts_.unknown_text.value_or(piece.text);
    return piece.type == Type::control ? piece.text : with_blanks(piece.text);
  }

  bool is_text(int32_t id) const override {
    if (id < 0 || id >= vocab_size() || parts_.pieces[static_cast<size_t>(id)].text.empty()) return false;
    const Type type = piece_of(id).type;
    return type != Type::control && type != Type::unknown && type != Type::unused && !added_.is_no_text(id);
  }

  std::string decode(std::span<const int32_t> ids) const override {
    using Strip = SpmParts::Strip;
    if (parts_.strip != Strip::sentencepiece) return decode_as_tokenizers(ids);
    std::string out;
    bool first = true;
    for (const int32_t id : ids) {
      std::string bytes = token_bytes(id);
      const Type type = piece_of(id).type;
      // A space in a user-defined piece is an actual space, not U+2581.
      const bool strip = first && type != Type::unknown && type != Type::byte && type != Type::control &&
                         piece_of(id).text.starts_with(kBlank);
      if (strip) bytes.erase(0, 1);
      out += bytes;
      // If leading spaces are removed from texts, all leading tokens that only consist of a space are
      // removed.
      if (type != Type::control && (!bytes.empty() || (strip && !parts_.collapse_blanks))) first = false;
    }
    return out;
  }

  std::string to_json() const override { return spm_json(parts_, merges_.list()); }

  VocabData vocab_data() const override {
    VocabData data{.model = "llama", .special = parts_.special};
    data.add_space_prefix = parts_.prefix != SpmParts::Prefix::never;
    data.remove_extra_whitespaces = parts_.collapse_blanks;
    data.unknown_text = parts_.unknown_text;
    data.scores = merges_.scores(parts_.pieces);
    for (size_t id = 0; id < parts_.pieces.size(); ++id) {
      const SpmParts::Piece& piece = parts_.pieces[id];
      const bool hole = piece.text.empty();
      data.tokens.push_back(hole ? fmt::format("[PAD{}]", id) : piece.text);
      const bool special = piece.type != Type::unknown && added_.is_no_text(static_cast<int32_t>(id));
      data.types.push_back(static_cast<int32_t>(hole ? Type::unused : special ? Type::control : piece.type));
    }
    return data;
  }

 private:
  std::string decode_as_tokenizers(std::span<const int32_t> ids) const {
    std::string out;
    for (const int32_t& id : ids) {
      const SpmParts::Piece& piece = piece_of(id);
      // The decoder replaces U+2581 with a space, even in special tokens.
      std::string bytes = piece.type == Type::control ? with_blanks(piece.text) : token_bytes(id);
      // A normalized added token decodes to its normalized text, including the leading space.
      const AddedToken* added = parts_.prefix_once ? nullptr : added_.find(id);
      if (added != nullptr && added->normalized)
        bytes = with_blanks(normalize(added->text, parts_.prefix == SpmParts::Prefix::every_part));
      // All U+2581 of the first token are removed. Spaces in the text of an added token are kept.
      const bool first = &id == ids.data() && parts_.strip == SpmParts::Strip::first_token;
      if (first && piece.type != Type::byte) bytes = replaced(piece.text, kBlank, "");
      out += bytes;
    }
    if (parts_.strip == SpmParts::Strip::first_byte && out.starts_with(' ')) out.erase(0, 1);
    return out;
  }

  const SpmParts::Piece& piece_of(int32_t id) const {
    if (id < 0 || id >= vocab_size() || parts_.pieces[static_cast<size_t>(id)].text.empty())
      fail_token_id(id, vocab_size());
    return parts_.pieces[static_cast<size_t>(id)];
  }

  void add_byte(const std::string& text, size_t id) {
    const int byte = byte_of_piece(text);
    if (byte < 0)
      fail("piece {} is of type byte: expected <0x00> to <0xFF>, found \"{}\"", id, printable_text(text, 40));
    byte_ids_[byte] = static_cast<int32_t>(id);
    ++bytes_found_;  // pieces are distinct, so no byte is counted twice
  }

  // `begins` is false if the text follows a cut before a space.
  std::vector<int32_t> encode(std::string_view text, std::span<const TextRange> trusted, bool begins) const {
    // Consecutive unknown characters may become a single token. The pieces of a part can therefore not be
    // encoded independently. first_id is the index of the first id of the current part.
    size_t first_id = 0;
    PieceEncoder encoder(
        caches_, has_bytes_ ? text.size() : 0,
        [&](std::string_view word, std::vector<int32_t>& ids) { encode_word(word, first_id, ids); });
    const auto encode_words_of = [&](std::string_view part) {
      if (!has_bytes_) first_id = encoder.all().size();
      encode_words(part, encoder);
    };
    const auto add_id = [&](int32_t id) { encoder.add_id(id); };
    added_.divide(
        text, trusted,
        [&](std::string_view part, size_t begin) {
          const bool special = covers(trusted, begin, begin + part.size());
          later_.divide(
              part, WholeText(part, special),
              [&](std::string_view rest, size_t offset) {
                const size_t at = begin + offset;
                encode_part(rest, special, at > 0 || begins, at == 0, encode_words_of, encoder);
              },
              add_id);
        },
        add_id);
    return std::move(encoder.all());
  }

  // Returns the characters to be merged. A space becomes U+2581, and an invalid byte becomes U+FFFD.
  std::string normalize(std::string_view text, bool prefix) const {
    std::string out;
    if (text.empty()) return out;
    out.reserve(text.size() + text.size() / 2);
    const bool has_one = text[0] == ' ' || text.starts_with(kBlank);
    if (prefix && !(parts_.prefix_once && has_one)) out += kBlank;
    bool after_blank = parts_.collapse_blanks;
    kept_.divide(
        text, {}, [&](std::string_view part, size_t) { append_characters(part, out, after_blank); },
        [&](int32_t id) { append_kept(parts_.pieces[static_cast<size_t>(id)].text, out, after_blank); });
    while (parts_.collapse_blanks && out.ends_with(kBlank))
      out.resize(out.size() - kBlank.size());
    return out;
  }

  // If `after_blank` is true, a space at the beginning of the text is removed.
  void append_characters(std::string_view text, std::string& out, bool& after_blank) const {
    for (size_t at = 0; at < text.size();) {
      if (text[at] == ' ') {
        if (!after_blank) out += kBlank;
        after_blank = parts_.collapse_blanks;
        ++at;
        continue;
      }
      after_blank = false;
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        out += text[at++];
        continue;
      }
      const Utf8Char c = decode_utf8(text, at);
      const bool valid = c.status == Utf8Status::valid;
      const auto length = static_cast<size_t>(valid ? c.length : 1);
      if (valid) {
        out.append(text.substr(at, length));
      } else {
        append_utf8(out, kReplacementChar);
      }
      at += length;
    }
  }

  // Appends a user-defined piece. As in SentencePiece, the spaces in the piece are kept, except leading
  // spaces after another space.
  static void append_kept(std::string_view piece, std::string& out, bool& after_blank) {
    if (after_blank) piece.remove_prefix(std::min(piece.find_first_not_of(' '), piece.size()));
    if (piece.empty()) return;
    out += replaced(piece, " ", kBlank);
    after_blank = piece.ends_with(' ');
  }

  void encode_part(std::string_view text, bool special, bool whole, bool first, auto& encode_words_of,
                   auto& encoder) const {
    using Prefix = SpmParts::Prefix;
    if (text.empty()) return;
    const bool prefix =
        whole && (parts_.prefix == Prefix::every_part || (parts_.prefix == Prefix::at_begin && first));
    const std::string characters = normalize(text, prefix);
    user_.divide(
        characters, WholeText(characters, special),
        [&](std::string_view part, size_t) { encode_words_of(part); },
        [&](int32_t id) { encoder.add_id(id); });
    encoder.end_part();
  }

  // Chunks that can be merged independently are encoded separately.
  void encode_words(std::string_view text, auto& encoder) const {
    for (size_t at = 0; at < text.size();) {
      std::string_view chunk = text.substr(at, merges_.chunk_end(text, at) - at);
      if (parts_.split_words) chunk = chunk.substr(0, chunk.find(kBlank, 1));
      encoder.add(chunk, text.size() - at);
      at += chunk.size();
    }
  }

  void encode_word(std::string_view word, size_t first_id, std::vector<int32_t>& ids) const {
    const size_t before = ids.size();
    for (size_t at = 0; at < word.size();) {
      const Utf8Char c = decode_utf8(word, at);
      ids.push_back(merges_.symbol_of(c.code));
      at += static_cast<size_t>(c.length);
    }
    merges_.table().merge(ids, before);
    const bool all_known = std::all_of(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(),
                                       [&](int32_t s) { return merges_.is_token(s); });
    if (all_known) return;
    const std::vector<int32_t> symbols(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
    ids.resize(before);
    for (const int32_t symbol : symbols)
      append_symbol(symbol, first_id, ids);
  }

  void append_symbol(int32_t symbol, size_t first_id, std::vector<int32_t>& ids) const {
    if (merges_.is_token(symbol)) return ids.push_back(symbol);
    std::vector<int32_t> halves;
    if (merges_.divide(symbol, halves)) {  // the piece can be merged, but must not be in the result
      for (const int32_t half : halves)
        append_symbol(half, first_id, ids);
      return;
    }
    if (merges_.is_piece(symbol)) return ids.push_back(symbol);  // an unused piece without halves
    const char32_t code = merges_.code_of(symbol);
    std::string bytes;
    append_utf8(bytes, code);
    if (has_bytes_) {
      for (const char byte : bytes)
        ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      return;
    }
    const auto unk = static_cast<int32_t>(parts_.special.unk);
    if (unk < 0) {
      fail(
          "the character '{}' (U+{:04X}) is not in the vocabulary, which has no token for unknown characters",
          printable_text(bytes, 1), static_cast<uint32_t>(code));
    }
    if (parts_.fuse_unknown && ids.size() > first_id && ids.back() == unk) return;
    ids.push_back(unk);
  }

  SpmParts parts_;
  AddedTokens added_, later_, user_;
  AddedTokens kept_;  // user-defined pieces, if repeated spaces are removed
  SpmMerges merges_;
  int32_t byte_ids_[256] = {};
  int bytes_found_ = 0;
  bool has_bytes_ = false;
  bool blanks_divide_ = true;  // false if a user-defined piece prevents cutting the text before spaces
  mutable PieceCaches caches_;
};

}  // namespace

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t found = text.find(from); found != std::string_view::npos; found = text.find(from)) {
    out.append(text.substr(0, found)).append(to);
    text.remove_prefix(found + from.size());
  }
  return out.append(text);
}

int byte_of_piece(std::string_view piece) {
  const auto digit = [&](size_t i) {
    const char c = piece[i];
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  return digit(3) < 0 || digit(4) < 0 ? -1 : 16 * digit(3) + digit(4);
}

bool is_one_character(std::string_view text) {
  return !text.empty() && static_cast<size_t>(decode_utf8(text, 0).length) == text.size();
}

std::unique_ptr<Tokenizer> make_spm_tokenizer(SpmParts parts) {
  return std::make_unique<SpmTokenizer>(std::move(parts));
}

SpmParts spm_parts(const VocabData& data, const std::string& name) {
  using enum VocabData::TokenType;
  if (data.scores.empty())
    fail("cannot read {}: a SentencePiece vocabulary requires scores, found none", name);
  SpmParts parts;
  parts.special = data.special;
  if (!parts.special.add_bos) parts.special.add_bos = true;  // default of llama.cpp and llama2.c
  parts.prefix =
      data.add_space_prefix.value_or(true) ? SpmParts::Prefix::every_part : SpmParts::Prefix::never;
  parts.collapse_blanks = data.remove_extra_whitespaces.value_or(false);
  parts.unknown_text = data.unknown_text;
  const bool strips = parts.prefix != SpmParts::Prefix::never || parts.collapse_blanks;
  parts.strip = strips ? SpmParts::Strip::sentencepiece : SpmParts::Strip::none;
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    // without types, byte pieces are recognized by their text
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

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/tokenizer_kinds.h"
#include "text/vocab_data.h"

namespace gpt {
namespace {

constexpr size_t kCodePoints = 0x110000;
constexpr auto kUnused = static_cast<int32_t>(VocabData::TokenType::unused);

[[noreturn]] void fail_invalid_utf8(std::string_view text, size_t at) {
  fail("the text is not valid UTF-8 at byte {} (0x{:02x}); convert it to UTF-8 or use `tokenizer` byte", at,
       static_cast<unsigned>(static_cast<unsigned char>(text[at])));
}

// Escapes backslashes and control characters in the style of RWKV vocabularies.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", unsigned{byte});
    } else {
      out += c;
    }
  }
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reverses escaped(). Returns nullopt for an invalid escape.
std::optional<std::string> unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return {};
    constexpr std::string_view kNames = "tnr", kControls = "\t\n\r";
    if (const size_t at = kNames.find(text[i]); at != std::string_view::npos) {
      out += kControls[at];
    } else if (text[i] == 'x') {
      if (text.size() - i < 3 || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0) return {};
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

class CharTokenizer final : public Tokenizer {
 public:
  explicit CharTokenizer(std::vector<char32_t> codes) : codes_(std::move(codes)) {
    if (!codes_.empty()) ids_.resize(std::ranges::max(codes_) + size_t{1}, -1);
    for (size_t id = 0; id < codes_.size(); ++id)
      ids_[codes_[id]] = static_cast<int32_t>(id);
  }

  std::string_view kind() const override { return "char"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(codes_.size()); }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = decode_utf8(text, at);
      if (c.status != Utf8Status::valid) fail_invalid_utf8(text, at);
      const int32_t id = c.code < ids_.size() ? ids_[c.code] : -1;
      if (id < 0) {
        fail(
            "the character '{}' (U+{:04X}) at byte {} is not one of the tokenizer's {} characters; remove "
            "it, train with text that contains it, or train with `tokenizer` byte",
            printable_text(text.substr(at), 1), static_cast<uint32_t>(c.code), at, codes_.size());
      }
      ids.push_back(id);
      at += static_cast<size_t>(c.length);
    }
    return ids;
  }

  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) detail::fail_token_id(id, vocab_size());
    std::string out;
    append_utf8(out, codes_[static_cast<size_t>(id)]);
    return out;
  }

  // Writes the tokenizer as a GGUF vocabulary in which the longest token at each position wins. This kind of
  // vocabulary has no special tokens.
  VocabData vocab_data() const override {
    VocabData data{.model = "rwkv"};
    for (int32_t id = 0; id < vocab_size(); ++id)
      data.tokens.push_back(escaped(token_bytes(id)));
    data.types.assign(data.tokens.size(), static_cast<int32_t>(VocabData::TokenType::normal));
    return data;
  }

  std::string to_json() const override {
    auto vocab = nlohmann::json::object();
    for (size_t id = 0; id < codes_.size(); ++id)
      vocab[token_bytes(static_cast<int32_t>(id))] = id;
    return detail::json_without_merges(std::move(vocab), nullptr, {{"type", "Fuse"}}).dump(1);
  }

 private:
  std::vector<char32_t> codes_;
  std::vector<int32_t> ids_;  // ids by code point; -1: no token
};

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "byte"; }
  int64_t vocab_size() const override { return 256; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids(text.size());
    for (size_t i = 0; i < text.size(); ++i)
      ids[i] = static_cast<unsigned char>(text[i]);
    return ids;
  }

  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id > 255) detail::fail_token_id(id, 256);
    return std::string(1, static_cast<char>(id));
  }

  // Writes the tokenizer as a byte-level BPE without merges, in which the id of each byte is the value of the
  // byte.
  VocabData vocab_data() const override {
    VocabData data{.model = "gpt2", .pre = "gpt-2"};
    for (int32_t id = 0; id < vocab_size(); ++id)
      data.tokens.push_back(detail::in_alphabet(token_bytes(id)));
    data.types.assign(data.tokens.size(), static_cast<int32_t>(VocabData::TokenType::normal));
    return data;
  }

  std::string to_json() const override {
    auto vocab = nlohmann::json::object();
    for (int b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      vocab[detail::in_alphabet({&byte, 1})] = b;
    }
    return detail::json_without_merges(std::move(vocab), detail::byte_level_json(false),
                                       detail::byte_level_json(false))
        .dump(1);
  }
};

}  // namespace

std::unique_ptr<Tokenizer> detail::make_char_tokenizer_from_codes(std::vector<char32_t> codes) {
  return std::make_unique<CharTokenizer>(std::move(codes));
}

std::unique_ptr<Tokenizer> detail::char_tokenizer_of(const VocabData& data, const std::string& name) {
  std::vector<char32_t> codes;
  std::unordered_set<char32_t> seen;
  size_t count = data.tokens.size();  // without the padding at the end of the vocabulary of a larger model
  while (count > 0 && !data.types.empty() && data.types[count - 1] == kUnused)
    --count;
  for (const std::string& token : std::span(data.tokens).first(count)) {
    const std::optional<std::string> text = unescaped(token);
    const Utf8Char c = text && !text->empty() ? decode_utf8(*text, 0) : Utf8Char{};
    const bool one = c.status == Utf8Status::valid && static_cast<size_t>(c.length) == text->size();
    if (!one || !seen.insert(c.code).second) {
      fail(
          "cannot read {}: only rwkv tokenizers with single-character tokens are supported; found token {}, "
          "\"{}\"",
          name, codes.size(), printable_text(token, 40));
    }
    codes.push_back(c.code);
  }
  return make_char_tokenizer_from_codes(std::move(codes));
}

std::unique_ptr<Tokenizer> make_char_tokenizer(std::span<const std::string_view> texts) {
  std::vector<bool> seen(kCodePoints, false);
  for (const std::string_view text : texts) {
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = decode_utf8(text, at);
      if (c.status != Utf8Status::valid) fail_invalid_utf8(text, at);
      seen[c.code] = true;
      at += static_cast<size_t>(c.length);
    }
  }
  std::vector<char32_t> codes;
  for (size_t code = 0; code < kCodePoints; ++code) {
    if (seen[code]) codes.push_back(static_cast<char32_t>(code));
  }
  if (codes.empty())
    fail(
        "cannot create a character tokenizer: the text is empty; set `data` to a text with at least one "
        "character");
  return detail::make_char_tokenizer_from_codes(std::move(codes));
}

std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text) {
  return make_char_tokenizer(std::span(&text, 1));
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

}  // namespace gpt

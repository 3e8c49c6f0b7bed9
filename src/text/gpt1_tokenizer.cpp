#include "text/gpt1_tokenizer.h"

#include <unordered_map>

#include "base/error.h"
#include "text/gpt1_text.h"
#include "text/merge_table.h"
#include "text/tokenizer_kinds.h"
#include "text/utf8.h"

namespace gpt::detail {
namespace {

constexpr std::string_view kEnd = "</w>";

class Gpt1Tokenizer final : public Tokenizer {
 public:
  explicit Gpt1Tokenizer(Gpt1Parts parts)
      : parts_(std::move(parts)), added_(parts_.added), table_(parts_.merges.size()) {
    for (size_t id = 0; id < parts_.tokens.size(); ++id)
      add_character(parts_.tokens[id], static_cast<int32_t>(id));
    for (size_t i = 0; i < parts_.merges.size(); ++i)
      add_merge(parts_.merges[i], i);
    for (const AddedToken& token : added_.tokens()) {
      const auto id = static_cast<size_t>(token.id);
      if (id >= parts_.tokens.size()) parts_.tokens.resize(id + 1);
      std::string& text = parts_.tokens[id];
      if (!text.empty() && text != token.text) fail("the id {} is given to two tokens", token.id);
      text = token.text;
    }
  }

  std::string_view kind() const override { return "gpt1"; }
  int64_t vocab_size() const override { return std::ssize(parts_.tokens); }
  SpecialIds special_ids() const override { return {.unk = parts_.unk}; }

  std::vector<int32_t> encode(std::string_view text) const override { return encode(text, false); }
  std::vector<int32_t> encode_special(std::string_view text) const override { return encode(text, true); }

  std::string token_bytes(int32_t id) const override {
    const std::string& text = text_of(id);
    return ends_word(text) ? text.substr(0, text.size() - kEnd.size()) + " " : text;
  }

  // The end of the last word is no blank.
  std::string decode(std::span<const int32_t> ids) const override {
    std::string out = Tokenizer::decode(ids);
    if (!ids.empty() && ends_word(text_of(ids.back()))) out.pop_back();
    return out;
  }

  std::string to_json() const override { return gpt1_json(parts_); }

 private:
  static bool ends_word(std::string_view text) { return text.size() > kEnd.size() && text.ends_with(kEnd); }

  const std::string& text_of(int32_t id) const {
    if (id < 0 || id >= vocab_size() || parts_.tokens[static_cast<size_t>(id)].empty())
      fail_token_id(id, vocab_size());
    return parts_.tokens[static_cast<size_t>(id)];
  }

  // Tokens of a single character, with or without </w>, are what words are made of.
  void add_character(const std::string& token, int32_t id) {
    if (token.empty()) return;
    if (first_invalid_utf8(token)) fail("the token {} is not valid UTF-8", id);
    const Utf8Char c = decode_utf8(token, 0);
    const std::string_view rest = std::string_view(token).substr(static_cast<size_t>(c.length));
    if (rest.empty()) inner_.emplace(c.code, id);
    if (rest == kEnd) last_.emplace(c.code, id);
  }

  void add_merge(const Bpe::Merge& m, size_t at) {
    for (const int32_t id : {m.left, m.right, m.result}) {
      if (id < 0 || id >= vocab_size()) fail("merge {} names the token {}, which does not exist", at, id);
    }
    table_.add(m.left, m.right, {static_cast<int32_t>(at), m.result});
  }

  std::vector<int32_t> encode(std::string_view text, bool special) const {
    std::vector<int32_t> ids;
    added_.divide(
        text, special, [&](std::string_view part, size_t) { encode_plain(part, ids); },
        [&](int32_t id) { ids.push_back(id); });
    return ids;
  }

  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    for (const std::u32string& word : gpt1_words(text)) {
      const size_t before = ids.size();
      for (size_t i = 0; i < word.size(); ++i)
        ids.push_back(symbol_of(word[i], i + 1 == word.size()));
      table_.merge(ids, before);
    }
  }

  int32_t symbol_of(char32_t code, bool last) const {
    const auto& symbols = last ? last_ : inner_;
    const auto found = symbols.find(code);
    if (found != symbols.end()) return found->second;
    if (parts_.unk < 0) {
      fail("the character U+{:04X} is not in the vocabulary, which has no token for unknown ones",
           static_cast<uint32_t>(code));
    }
    return static_cast<int32_t>(parts_.unk);
  }

  Gpt1Parts parts_;
  AddedTokens added_;
  MergeTable table_;
  std::unordered_map<char32_t, int32_t> inner_, last_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_gpt1_tokenizer(Gpt1Parts parts) {
  return std::make_unique<Gpt1Tokenizer>(std::move(parts));
}

}  // namespace gpt::detail

#include "text/gpt1_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/bpe_json.h"
#include "text/json_parts.h"
#include "text/merge_table.h"
#include "text/tokenizer_kinds.h"
#include "text/unicode.h"

namespace gpt::detail {
namespace {

constexpr std::string_view kEnd = "</w>";

class Gpt1Tokenizer final : public Tokenizer {
 public:
  explicit Gpt1Tokenizer(Gpt1Parts parts)
      : parts_(std::move(parts)),
        added_(parts_.added),
        normalized_(added_.normalized(gpt1_normalized)),
        table_(merge_table(parts_.merges, {parts_.tokens.begin(), parts_.tokens.end()})) {
    for (size_t id = 0; id < parts_.tokens.size(); ++id)
      add_character(parts_.tokens[id], static_cast<int32_t>(id));
    for (const AddedToken& token : added_.tokens()) {
      const auto id = static_cast<size_t>(token.id);
      if (id >= parts_.tokens.size()) parts_.tokens.resize(id + 1);
      std::string& text = parts_.tokens[id];
      if (!text.empty() && text != token.text) fail("the id {} is assigned to two tokens", token.id);
      text = token.text;
    }
  }

  std::string_view kind() const override { return "gpt1"; }
  int64_t vocab_size() const override { return std::ssize(parts_.tokens); }
  SpecialIds special_ids() const override { return {.unk = parts_.unk}; }
  bool is_text(int32_t id) const override {
    return id >= 0 && id < vocab_size() && !parts_.tokens[static_cast<size_t>(id)].empty() &&
           id != parts_.unk && !added_.is_no_text(id);
  }

  std::vector<int32_t> encode(std::string_view text) const override { return encode_trusted(text, {}); }

  std::vector<int32_t> encode_trusted(std::string_view text,
                                      std::span<const TextRange> trusted) const override {
    std::vector<int32_t> ids;
    added_.divide(
        text, trusted,
        [&](std::string_view part, size_t begin) {
          encode_part(part, covers(trusted, begin, begin + part.size()), ids);
        },
        [&](int32_t id) { ids.push_back(id); });
    return ids;
  }

  std::string token_bytes(int32_t id) const override {
    const std::string& text = text_of(id);
    return ends_word(text) ? text.substr(0, text.size() - kEnd.size()) + " " : text;
  }

  // A </w> at the end of the text does not decode to a space.
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

  // Words are first split into single-character tokens, with or without </w>.
  void add_character(const std::string& token, int32_t id) {
    if (token.empty()) return;
    if (first_invalid_utf8(token)) fail("the token {} is not valid UTF-8", id);
    const Utf8Char c = decode_utf8(token, 0);
    const std::string_view rest = std::string_view(token).substr(static_cast<size_t>(c.length));
    if (rest.empty()) inner_.emplace(c.code, id);
    if (rest == kEnd) last_.emplace(c.code, id);
  }

  // Normalized added tokens are matched in the normalized text.
  void encode_part(std::string_view text, bool special, std::vector<int32_t>& ids) const {
    if (normalized_.tokens().empty()) return encode_plain(text, ids);
    const std::string clean = gpt1_normalized(text);
    normalized_.divide(
        clean, WholeText(clean, special), [&](std::string_view part, size_t) { encode_plain(part, ids); },
        [&](int32_t id) { ids.push_back(id); });
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
      fail("the character U+{:04X} is not in the vocabulary, which has no token for unknown characters",
           static_cast<uint32_t>(code));
    }
    return static_cast<int32_t>(parts_.unk);
  }

  Gpt1Parts parts_;
  AddedTokens added_, normalized_;
  MergeTable table_;
  std::unordered_map<char32_t, int32_t> inner_, last_;
};

struct Range {
  char32_t first, last;
};
// Maps the characters first, first + step, ... up to last to other characters. Each of them becomes the
// character that is image - first code points later.
struct Moved {
  char32_t first, last, step, image;
};

#include "text/gpt1_table.inc"

// The characters that BertNormalizer calls Chinese characters.
constexpr Range kHan[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                          {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

// Searches a sorted table of ranges. Returns the entry whose range contains the code, or null if there is no
// such entry.
template <class Entry, size_t N>
const Entry* entry_before(const Entry (&table)[N], char32_t code) {
  const auto behind = std::ranges::upper_bound(table, code, {}, &Entry::first);
  return behind == std::begin(table) || (behind - 1)->last < code ? nullptr : behind - 1;
}

bool is_han(char32_t code) {
  return code >= 0x3400 && entry_before(kHan, code) != nullptr;
}

bool is_dropped(char32_t code) {
  const Category c = category(code);
  const bool unseen = c == Category::Cc || c == Category::Cf || c == Category::Co || c == Category::Mn;
  return unseen != (entry_before(kDroppedOtherwise, code) != nullptr);
}

// Appends the canonical decomposition of a character, without marks and in lower case. Decomposition and
// lower case do not change between versions of Unicode.
void append_normalized(std::u32string& out, char32_t code) {
  if (code > ' ' && code < 0x7F) {  // fast path for ASCII
    out += code >= 'A' && code <= 'Z' ? code - 'A' + 'a' : code;
    return;
  }
  const Moved* moved = entry_before(kMoved, code);
  if (moved != nullptr && (code - moved->first) % moved->step == 0) {
    out += static_cast<char32_t>(moved->image + (code - moved->first));
    return;
  }
  if (is_dropped(code)) return;
  if (is_white_space(code)) {
    out += ' ';
    return;
  }
  utf8proc_int32_t parts[4];  // enough parts for any single character (Unicode 16: U+1F82)
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, std::ssize(parts),
                                             UTF8PROC_DECOMPOSE, nullptr);
  GPT_ASSERT(count >= 0 && count <= std::ssize(parts));
  for (const utf8proc_int32_t part : std::span(parts, static_cast<size_t>(count)))
    if (!is_dropped(static_cast<char32_t>(part))) out += static_cast<char32_t>(utf8proc_tolower(part));
}

class Words {
 public:
  void add(char32_t code) {
    if (code == ' ') return end();
    if (is_gpt1_punctuation(code)) {
      end();
      words_.emplace_back(1, code);
      return;
    }
    word_ += code;
  }
  void end() {
    if (!word_.empty()) words_.push_back(std::move(word_));
    word_.clear();
  }
  std::vector<std::u32string> take() { return end(), std::move(words_); }

 private:
  std::u32string word_;
  std::vector<std::u32string> words_;
};

using Json = nlohmann::json;

Json normalizer_json() {
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", true},
          {"strip_accents", nullptr},
          {"lowercase", true}};
}

void check_normalizer(const Json& normalizer, const std::string& name) {
  if (!has_type(normalizer, "BertNormalizer"))
    fail_kind(name, "the end_of_word_suffix </w> without a BertNormalizer");
  const auto is_true = [&](const char* key) { return member(normalizer, key) == true; };
  const Json& accents = member(normalizer, "strip_accents");
  if (!is_true("clean_text") || !is_true("handle_chinese_chars") || !is_true("lowercase") || accents == false)
    fail_kind(name, "a BertNormalizer with settings that differ from those of GPT-1");
}

}  // namespace

std::unique_ptr<Tokenizer> make_gpt1_tokenizer(Gpt1Parts parts) {
  return std::make_unique<Gpt1Tokenizer>(std::move(parts));
}

bool is_gpt1_punctuation(char32_t code) {
  const Category c = category(code);
  const bool apart =
      (c >= Category::Pc && c <= Category::Po) || (code < 0x80 && c >= Category::Sm && c <= Category::So);
  return apart != (entry_before(kPunctuationOtherwise, code) != nullptr);
}

// Calls code(c) for each character of the normalized text. Calls apart() before and after each Han character,
// because a Han character is a separate word.
template <class Code, class Apart>
void for_each_normalized(std::string_view text, Code&& code, Apart&& apart) {
  std::u32string image;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    at += static_cast<size_t>(c.length);
    image.clear();
    append_normalized(image, c.code);
    const bool han = is_han(c.code);
    if (han) apart();
    for (const char32_t one : image)
      code(one);
    if (han) apart();
  }
}

std::vector<std::u32string> gpt1_words(std::string_view text) {
  Words words;
  for_each_normalized(
      text, [&](char32_t c) { words.add(c); }, [&] { words.end(); });
  return words.take();
}

std::string gpt1_normalized(std::string_view text) {
  std::string out;
  for_each_normalized(
      text, [&](char32_t c) { append_utf8(out, c); }, [&] { out += ' '; });
  return out;
}

bool is_gpt1_json(const Json& root) {
  return member(member(root, "model"), "end_of_word_suffix") == kEnd.data();
}

Gpt1Parts read_gpt1_json(const Json& root, const std::string& name) {
  const Json& model = root["model"];
  require_unused(
      model, {"dropout", "continuing_subword_prefix", "fuse_unk", "byte_fallback", "ignore_merges"}, name);
  check_normalizer(member(root, "normalizer"), name);
  if (!has_type(member(root, "pre_tokenizer"), "BertPreTokenizer"))
    fail_kind(name, "the end_of_word_suffix </w> without a BertPreTokenizer");
  const Json& decoder = member(root, "decoder");
  if (!has_type(decoder, "BPEDecoder") || member(decoder, "suffix") != kEnd.data())
    fail_kind(name, "the end_of_word_suffix </w> without a matching BPEDecoder");
  Gpt1Parts parts;
  TokenIndex index(name);
  visit_vocab(model, name, [&](const std::string& token, int64_t value) {
    const auto id = static_cast<size_t>(value);
    if (id >= parts.tokens.size()) parts.tokens.resize(id + 1);
    if (!parts.tokens[id].empty()) fail("cannot read {}: the id {} is assigned to two tokens", name, id);
    parts.tokens[id] = token;
    index.add(token, static_cast<int32_t>(id));
  });
  parts.added = read_added_tokens(root, name);
  const Json& unk = member(model, "unk_token");
  if (unk.is_string()) parts.unk = index.find(unk.get<std::string>());
  if (!unused(unk) && parts.unk < 0)
    fail("cannot read {}: the unk_token {} is not in the vocabulary", name, printable_text(unk.dump(), 40));
  parts.merges = read_merges(model, index, name);
  return parts;
}

Json gpt1_json_of_vocab_and_merges(Json vocab, Json merges) {
  Json root = json_without_merges(std::move(vocab), {{"type", "BertPreTokenizer"}},
                                  {{"type", "BPEDecoder"}, {"suffix", kEnd.data()}});
  root["normalizer"] = normalizer_json();
  Json& model = root["model"];
  model["end_of_word_suffix"] = kEnd.data();
  model["merges"] = std::move(merges);
  // The files do not list <unk>, which replaces characters that are not in the vocabulary.
  const Json& id = member(model["vocab"], "<unk>");
  if (id.is_null()) return root;
  model["unk_token"] = "<unk>";
  root["added_tokens"].push_back({{"id", id}, {"content", "<unk>"}, {"special", true}});
  return root;
}

std::string gpt1_json(const Gpt1Parts& parts) {
  Json vocab = Json::object();
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    if (!parts.tokens[id].empty()) vocab[parts.tokens[id]] = id;
  }
  const auto pair_json = [&](const Bpe::Merge& m) {
    return Json::array(
        {parts.tokens[static_cast<size_t>(m.left)], parts.tokens[static_cast<size_t>(m.right)]});
  };
  Json root = gpt1_json_of_vocab_and_merges(std::move(vocab), transformed(parts.merges, pair_json));
  root["added_tokens"] = transformed(parts.added, added_token_json);
  root["model"]["unk_token"] = nullptr;
  if (parts.unk >= 0) root["model"]["unk_token"] = parts.tokens[static_cast<size_t>(parts.unk)];
  return root.dump();
}

}  // namespace gpt::detail

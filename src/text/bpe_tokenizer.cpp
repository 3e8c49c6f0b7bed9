#include "text/bpe_tokenizer.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "text/bpe_json.h"
#include "text/byte_level.h"
#include "text/parallel_encode.h"
#include "text/piece_cache.h"
#include "text/post_processor.h"
#include "text/split_scan.h"
#include "text/tokenizer_kinds.h"
#include "text/unicode.h"
#include "text/vocab_data.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;

// Removes added tokens from the vocabulary if they are neither single bytes nor part of a merge.
BpeParts without_unreachable(BpeParts parts) {
  std::vector<bool> merged(parts.tokens.size());
  for (const Bpe::Merge& merge : parts.merges) {
    for (const int32_t id : {merge.left, merge.right, merge.result}) {
      if (id >= 0 && id < std::ssize(merged)) merged[static_cast<size_t>(id)] = true;
    }
  }
  for (const AddedToken& token : parts.added) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= parts.tokens.size() || merged[id] || parts.tokens[id].size() < 2) continue;
    if (parts.tokens[id] == token.text || in_alphabet(parts.tokens[id]) == token.text)
      parts.tokens[id].clear();
  }
  return parts;
}

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts)
      : bpe_(parts.ranks ? Bpe::of_ranks(std::move(parts.tokens))
                         : Bpe(std::move(parts.tokens), std::move(parts.merges), parts.unknown)),
        added_(std::move(parts.added)),
        pattern_(parts.pattern),
        steps_(parts.steps.empty() ? nullptr : std::make_unique<PreTokenizer>(std::move(parts.steps))),
        special_(parts.special),
        ignore_merges_(parts.ignore_merges),
        nfc_(parts.nfc),
        bytes_(bpe_.tokens()) {
    normalized_ = added_.normalized([&](const std::string& text) {
      std::string copy;
      return nfc_ ? std::string(nfc(text, copy)) : text;
    });
    for (const AddedToken& token : added_.tokens()) {
      const auto id = static_cast<size_t>(token.id);
      if (id >= bytes_.size()) bytes_.resize(id + 1);
      if (bytes_[id].empty()) bytes_[id] = token.text;
      if (bytes_[id] != token.text && in_alphabet(bytes_[id]) != token.text)
        fail("the id {} is assigned to two tokens", token.id);
    }
    if (bpe_.unknown() >= vocab_size())
      fail("the id {} for unknown bytes is not in the vocabulary", bpe_.unknown());
    sort_tokens();
  }

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return std::ssize(bytes_); }

  std::vector<int32_t> encode(std::string_view text) const override { return encode_trusted(text, {}); }

  // A text can be cut before a space that follows a character other than white space, because such a space
  // always begins a piece. The cut does not change the pieces before the space, because the patterns only
  // look ahead across white space.
  std::vector<int32_t> encode_parallel(std::string_view text, ThreadPool& pool) const override {
    if (pool.size() == 1 || steps_ || !added_.blanks_divide()) return encode(text);
    const auto may_cut = [](char last) { return last > ' ' && last < 0x7F; };
    return encode_parts(text, pool, may_cut, [&](std::string_view part, bool) { return encode(part); });
  }

  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size() || bytes_[static_cast<size_t>(id)].empty())
      fail_token_id(id, vocab_size());
    return bytes_[static_cast<size_t>(id)];
  }

  bool is_text(int32_t id) const override {
    return id >= 0 && id < vocab_size() && !bytes_[static_cast<size_t>(id)].empty() && id != bpe_.unknown() &&
           !added_.is_no_text(id);
  }

  SpecialIds special_ids() const override {
    SpecialIds ids = special_;
    if (bpe_.unknown() >= 0) ids.unk = bpe_.unknown();
    return ids;
  }

  VocabData vocab_data() const override {
    using enum VocabData::TokenType;
    VocabData data{.model = "gpt2", .special = special_};
    data.pre = steps_ ? gguf_name_of_steps(steps_->steps()) : gguf_name(pattern_);
    // The names qwen2 and stablelm2 have the same pattern, but only qwen2 implies NFC.
    if (!nfc_ && data.pre == "qwen2") data.pre = "stablelm2";
    if (bpe_.unknown() >= 0) fail("a GGUF file cannot store the token for unknown bytes");
    if (data.pre.empty() || (nfc_ && data.pre != "qwen2"))
      fail_unsupported("GGUF has no pre-tokenizer name for the way this tokenizer splits text");
    const bool implied = data.pre == gguf_name(SplitPattern::llama3) || data.pre == "tekken";
    if (ignore_merges_ != implied && merges_decide())
      fail("a GGUF file with the pre-tokenizer {} cannot have \"ignore_merges\": {}", data.pre,
           ignore_merges_);
    for (size_t id = 0; id < bytes_.size(); ++id) {
      const bool plain = id < bpe_.tokens().size() && !bpe_.tokens()[id].empty();
      data.tokens.push_back(plain ? in_alphabet(bytes_[id]) : fmt::format("[PAD{}]", id));
      data.types.push_back(static_cast<int32_t>(plain ? normal : unused));
    }
    for (const AddedToken& token : added_.tokens()) {
      const auto id = static_cast<size_t>(token.id);
      data.tokens[id] = token.text;
      data.types[id] = static_cast<int32_t>(token.unused ? unused : token.special ? control : user_defined);
    }
    for (const Bpe::Merge& m : bpe_.merges())
      data.merges.push_back(data.tokens[static_cast<size_t>(m.left)] + " " +
                            data.tokens[static_cast<size_t>(m.right)]);
    return data;
  }

  std::string to_json() const override {
    Json vocab = Json::object(), merges = Json::array(), added = Json::array();
    for (size_t id = 0; id < bpe_.tokens().size(); ++id) {
      if (!bpe_.tokens()[id].empty()) vocab[in_alphabet(bpe_.tokens()[id])] = id;
    }
    if (bpe_.unknown() >= 0) vocab[name_of(bpe_.unknown())] = bpe_.unknown();
    for (const Bpe::Merge& m : bpe_.merges()) {
      const auto text = [&](int32_t id) { return in_alphabet(bpe_.tokens()[static_cast<size_t>(id)]); };
      merges.push_back({text(m.left), text(m.right)});
    }
    for (const AddedToken& token : added_.tokens()) {
      if (!token.unused) added.push_back(added_token_json(token));
    }
    name_ids_that_would_change(vocab);
    Json root = json_without_merges(
        std::move(vocab),
        split_steps_json(steps_ ? steps_->steps() : std::vector{SplitStep{.pattern = pattern_}}),
        byte_level_json(true));
    root["post_processor"] =
        post_processor_json(special_, [&](int64_t id) { return name_of(static_cast<int32_t>(id)); });
    if (nfc_) root["normalizer"] = {{"type", "NFC"}};
    root["added_tokens"] = std::move(added);
    root["model"]["merges"] = std::move(merges);
    root["model"]["ignore_merges"] = ignore_merges_;
    if (bpe_.unknown() >= 0) root["model"]["unk_token"] = name_of(bpe_.unknown());
    return root.dump();
  }

  std::vector<int32_t> encode_trusted(std::string_view text,
                                      std::span<const TextRange> trusted) const override {
    PieceEncoder encoder(caches_, text.size(), EncodePiece{*this});
    added_.divide(
        text, trusted,
        [&](std::string_view part, size_t begin) {
          encode_plain(part, covers(trusted, begin, begin + part.size()), encoder);
        },
        [&](int32_t id) { encoder.add_id(id); });
    return std::move(encoder.all());
  }

 private:
  // Adds the added tokens to the vocabulary if Hugging Face tokenizers would otherwise change their ids. The
  // library numbers the added tokens that are not in the vocabulary from the end of the vocabulary on.
  void name_ids_that_would_change(Json& vocab) const {
    int64_t next = std::ssize(vocab);
    bool changes = false;
    for (const AddedToken& token : added_.tokens()) {
      if (token.unused || vocab.contains(token.text)) continue;
      changes = changes || token.id != next;
      next = token.id + 1;
    }
    for (const AddedToken& token : added_.tokens()) {
      if (changes && !token.unused) vocab[token.text] = token.id;
    }
  }

  // Returns true if there is a token whose bytes do not merge into the token itself.
  bool merges_decide() const {
    std::vector<int32_t> ids;
    for (size_t id = 0; id < bpe_.tokens().size(); ++id) {
      if (bpe_.tokens()[id].size() >= 2 && !is_made(id, ids)) return true;
    }
    return false;
  }

  // Returns true if the bytes of a token merge into the token itself. `ids` is scratch space.
  bool is_made(size_t id, std::vector<int32_t>& ids) const {
    ids.clear();
    bpe_.encode(bpe_.tokens()[id], ids);
    return ids.size() == 1 && ids[0] == static_cast<int32_t>(id);
  }

  // Returns the spelling of a token in tokenizer.json.
  std::string name_of(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    const bool plain = at < bpe_.tokens().size() && !bpe_.tokens()[at].empty();
    return plain ? in_alphabet(bytes_[at]) : bytes_[at];
  }

  void encode_plain(std::string_view text, bool special, auto& encoder) const {
    std::string copy;
    if (nfc_) text = nfc(text, copy);
    normalized_.divide(
        text, WholeText(text, special),
        [&](std::string_view part, size_t) { encode_composed(part, encoder); },
        [&](int32_t id) { encoder.add_id(id); });
    encoder.end_part();
  }

  void encode_composed(std::string_view text, auto& encoder) const {
    if (text.empty()) return;
    const char* const end = text.data() + text.size();
    const auto add = [&](std::string_view piece) {
      encoder.add(piece, static_cast<size_t>(end - piece.data()));
    };
    if (!steps_) return split_all(pattern_, text, add);
    PreTokenizer::Run run(*steps_);
    run.split(text, add);
  }

  // The callbacks of PieceEncoder for encoding a piece.
  struct EncodePiece {
    const BpeTokenizer& tokenizer;

    void operator()(std::string_view piece, std::vector<int32_t>& ids) const {
      const int32_t whole = tokenizer.find_whole(piece);
      whole < 0 ? encode_part(piece, ids) : ids.push_back(whole);
    }
    void encode_part(std::string_view part, std::vector<int32_t>& ids) const {
      tokenizer.bpe_.encode(part, ids);
    }
    size_t end_of_part(std::string_view piece, size_t from) const {
      const size_t end = tokenizer.bpe_.end_of_part(piece, from);
      if (from == 0 && end < piece.size() && tokenizer.unmade_.contains(piece)) return piece.size();
      return end;
    }
    bool is_same_in_parts(int32_t id) const {
      return tokenizer.unmade_.empty() || !tokenizer.is_unmade_[static_cast<size_t>(id)];
    }
  };

  // Returns the token of a piece that is a single token, or -1 if the piece must be merged.
  int32_t find_whole(std::string_view piece) const {
    const int32_t made = made_.find(piece);
    if (made >= 0 || unmade_.empty()) return made;
    const auto found = unmade_.find(piece);
    return found == unmade_.end() ? -1 : found->second;
  }

  // Sorts the tokens into made_ and unmade_.
  void sort_tokens() {
    std::vector<int32_t> ids;
    const std::vector<std::string>& tokens = bpe_.tokens();
    made_ = TokenTable(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (tokens[i].empty() || (!ignore_merges_ && tokens[i].size() > PieceKey::kLongest)) continue;
      if (is_made(i, ids)) {
        made_.add(tokens[i], id);
      } else if (ignore_merges_) {
        unmade_.emplace(tokens[i], id);
        is_unmade_.resize(tokens.size());
        is_unmade_[i] = true;
      }
    }
  }

  Bpe bpe_;
  TokenTable made_;                                       // tokens whose bytes merge into the token itself
  std::unordered_map<std::string_view, int32_t> unmade_;  // all other tokens, if ignore_merges_ is true
  std::vector<bool> is_unmade_;                           // by id; empty if there are no unmade tokens
  AddedTokens added_, normalized_;
  SplitPattern pattern_;
  std::unique_ptr<PreTokenizer> steps_;  // if set, used instead of pattern_
  SpecialIds special_;
  bool ignore_merges_;
  bool nfc_;
  std::vector<std::string> bytes_;  // of all tokens, by id
  mutable PieceCaches caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts) {
  return std::make_unique<BpeTokenizer>(without_unreachable(std::move(parts)));
}

}  // namespace gpt::detail

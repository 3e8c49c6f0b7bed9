#include "text/bpe_tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/bpe_json.h"
#include "text/byte_level.h"
#include "text/piece_cache.h"
#include "text/tokenizer_kinds.h"
#include "text/vocab_data.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts)
      : bpe_(parts.ranks ? Bpe::of_ranks(std::move(parts.tokens))
                         : Bpe(std::move(parts.tokens), std::move(parts.merges))),
        added_(std::move(parts.added)),
        pattern_(parts.pattern),
        special_(parts.special),
        ignore_merges_(parts.ignore_merges),
        bytes_(bpe_.tokens()) {
    for (const AddedToken& token : added_.tokens()) {
      const auto id = static_cast<size_t>(token.id);
      if (id >= bytes_.size()) bytes_.resize(id + 1);
      if (!bytes_[id].empty()) fail("the id {} is given to two tokens", token.id);
      bytes_[id] = token.text;
    }
  }

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return std::ssize(bytes_); }

  std::vector<int32_t> encode(std::string_view text) const override { return encode(text, false); }
  std::vector<int32_t> encode_special(std::string_view text) const override { return encode(text, true); }

  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size() || bytes_[static_cast<size_t>(id)].empty())
      fail_token_id(id, vocab_size());
    return bytes_[static_cast<size_t>(id)];
  }

  SpecialIds special_ids() const override { return special_; }

  VocabData vocab_data() const override {
    using enum VocabData::TokenType;
    VocabData data{.model = "gpt2", .pre = std::string(gguf_name(pattern_)), .special = special_};
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
    for (const Bpe::Merge& m : bpe_.merges()) {
      const auto text = [&](int32_t id) { return in_alphabet(bpe_.tokens()[static_cast<size_t>(id)]); };
      merges.push_back({text(m.left), text(m.right)});
    }
    for (const AddedToken& token : added_.tokens()) {
      if (token.unused) continue;
      added.push_back(added_token_json(token));
    }
    Json root = json_without_merges(std::move(vocab), pre_tokenizer_json(), byte_level_json(true));
    root["added_tokens"] = std::move(added);
    root["model"]["merges"] = std::move(merges);
    root["model"]["ignore_merges"] = ignore_merges_;
    return root.dump();
  }

 private:
  Json pre_tokenizer_json() const {
    if (pattern_ == SplitPattern::gpt2) return byte_level_json(true);
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", split_regex(pattern_)}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level_json(false)}}};
  }

  std::vector<int32_t> encode(std::string_view text, bool special) const {
    std::vector<int32_t> ids;
    PieceCache cache(text.size());
    size_t begin = 0;
    while (const auto found = added_.next(text, begin, special)) {
      encode_plain(text.substr(begin, found->begin - begin), cache, ids);
      ids.push_back(found->id);
      begin = found->end;
    }
    encode_plain(text.substr(begin), cache, ids);
    return ids;
  }

  void encode_plain(std::string_view text, PieceCache& cache, std::vector<int32_t>& ids) const {
    for (size_t at = 0; at < text.size();) {
      const size_t end = split_end(pattern_, text, at);
      cache.append(text.substr(at, end - at), ids,
                   [this](std::string_view piece, std::vector<int32_t>& out) { encode_piece(piece, out); });
      at = end;
    }
  }

  void encode_piece(std::string_view piece, std::vector<int32_t>& ids) const {
    const int32_t whole = ignore_merges_ ? bpe_.find(piece) : -1;
    if (whole >= 0) {
      ids.push_back(whole);
    } else {
      bpe_.encode(piece, ids);
    }
  }

  Bpe bpe_;
  AddedTokens added_;
  SplitPattern pattern_;
  SpecialIds special_;
  bool ignore_merges_;
  std::vector<std::string> bytes_;  // of all tokens, by id
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts) {
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace gpt::detail

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/bpe_json.h"
#include "text/gpt1_tokenizer.h"
#include "text/json_parts.h"
#include "text/tokenizer_kinds.h"
#include "text/utf8.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;

const char* const kEnd = "</w>";

Json normalizer_json() {
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", true},
          {"strip_accents", nullptr},
          {"lowercase", true}};
}

void check_normalizer(const Json& normalizer, const std::string& name) {
  if (!has_type(normalizer, "BertNormalizer"))
    fail_kind(name, "words that end in </w> without a BertNormalizer");
  const auto is_true = [&](const char* key) { return member(normalizer, key) == true; };
  const Json& accents = member(normalizer, "strip_accents");
  if (!is_true("clean_text") || !is_true("handle_chinese_chars") || !is_true("lowercase") || accents == false)
    fail_kind(name, "a BertNormalizer that keeps some of what GPT-1's takes away");
}

}  // namespace

bool is_gpt1_json(const Json& root) {
  return member(member(root, "model"), "end_of_word_suffix") == kEnd;
}

Gpt1Parts read_gpt1_json(const Json& root, const std::string& name) {
  const Json& model = root["model"];
  require_unused(
      model, {"dropout", "continuing_subword_prefix", "fuse_unk", "byte_fallback", "ignore_merges"}, name);
  check_normalizer(member(root, "normalizer"), name);
  if (!has_type(member(root, "pre_tokenizer"), "BertPreTokenizer"))
    fail_kind(name, "words that end in </w> without a BertPreTokenizer");
  const Json& decoder = member(root, "decoder");
  if (!has_type(decoder, "BPEDecoder") || member(decoder, "suffix") != kEnd)
    fail_kind(name, "words that end in </w> without the BPEDecoder for it");
  Gpt1Parts parts;
  TokenIndex index(name);
  const Json& vocab = member(model, "vocab");
  if (!vocab.is_object() || vocab.empty())
    fail("cannot read {}: expected model.vocab to be an object of tokens and ids", name);
  for (const auto& [token, value] : vocab.items()) {
    const auto id = static_cast<size_t>(read_token_id(value, token, name));
    if (token.empty()) fail("cannot read {}: the token {} is empty", name, id);
    if (id >= parts.tokens.size()) parts.tokens.resize(id + 1);
    if (!parts.tokens[id].empty()) fail("cannot read {}: the id {} is given to two tokens", name, id);
    parts.tokens[id] = token;
    index.add(token, static_cast<int32_t>(id));
  }
  parts.added = read_added_tokens(root, name);
  for (AddedToken& token : parts.added)
    token.normalized = false;  // found before the text is cleaned
  const Json& unk = member(model, "unk_token");
  if (unk.is_string()) parts.unk = index.find(unk.get<std::string>());
  if (!unused(unk) && parts.unk < 0)
    fail("cannot read {}: the unk_token {} is not in the vocabulary", name, printable_text(unk.dump(), 40));
  const Json& merges = member(model, "merges");
  if (!merges.is_array()) fail("cannot read {}: expected model.merges to be a list", name);
  for (size_t i = 0; i < merges.size(); ++i)
    parts.merges.push_back(read_merge_json(merges[i], i, index, name));
  return parts;
}

Json gpt1_json_of_vocab_and_merges(Json vocab, Json merges) {
  Json root = json_without_merges(std::move(vocab), {{"type", "BertPreTokenizer"}},
                                  {{"type", "BPEDecoder"}, {"suffix", kEnd}});
  root["normalizer"] = normalizer_json();
  Json& model = root["model"];
  model["end_of_word_suffix"] = kEnd;
  model["merges"] = std::move(merges);
  // The files do not say so, but this one stands for characters that the vocabulary lacks.
  const Json& id = member(model["vocab"], "<unk>");
  if (id.is_null()) return root;
  model["unk_token"] = "<unk>";
  root["added_tokens"].push_back({{"id", id}, {"content", "<unk>"}, {"special", true}});
  return root;
}

std::string gpt1_json(const Gpt1Parts& parts) {
  Json vocab = Json::object(), merges = Json::array(), added = Json::array();
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    if (!parts.tokens[id].empty()) vocab[parts.tokens[id]] = id;
  }
  for (const Bpe::Merge& m : parts.merges)
    merges.push_back({parts.tokens[static_cast<size_t>(m.left)], parts.tokens[static_cast<size_t>(m.right)]});
  for (const AddedToken& token : parts.added)
    added.push_back(added_token_json(token));
  Json root = gpt1_json_of_vocab_and_merges(std::move(vocab), std::move(merges));
  root["added_tokens"] = std::move(added);
  root["model"]["unk_token"] = nullptr;
  if (parts.unk >= 0) root["model"]["unk_token"] = parts.tokens[static_cast<size_t>(parts.unk)];
  return root.dump();
}

}  // namespace gpt::detail

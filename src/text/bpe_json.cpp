#include "text/bpe_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/gpt1_tokenizer.h"
#include "text/json_parts.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_kinds.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;

std::string bytes_of(const AlphabetReader& alphabet, const std::string& token, const std::string& name) {
  if (auto bytes = alphabet.bytes_of(token)) return *std::move(bytes);
  fail(
      "cannot read {}: the token {} contains characters that do not represent a byte; expected a byte-level "
      "vocabulary",
      name, Json(token).dump());
}

class Reader {
 public:
  Reader(const Json& root, const std::string& name)
      : root_(root), model_(root["model"]), name_(name), index_(name) {}

  BpeParts read() {
    const Json& normalizer = member(root_, "normalizer");
    parts_.nfc = has_type(normalizer, "NFC");
    if (!parts_.nfc) require_unused(root_, {"normalizer"}, name_);
    require_unused(
        model_, {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "fuse_unk"},
        name_);
    if (!has_type(member(root_, "decoder"), "ByteLevel")) fail_kind(name_, "a decoder other than ByteLevel");
    parts_.ignore_merges = !unused(member(model_, "ignore_merges"));
    read_pre_tokenizer();
    parts_.special = read_post_processor(root_, name_);
    read_added();
    read_vocab();
    parts_.merges = read_merges(model_, index_, name_);
    keep_last_of_equal(parts_.merges);
    read_unknown();
    return std::move(parts_);
  }

 private:
  void read_pre_tokenizer() {
    Json pre_tokenizer = member(root_, "pre_tokenizer");
    // If there are no merges, the way in which text is split does not affect the ids.
    const bool merges = !unused(member(model_, "merges")) || parts_.ignore_merges;
    if (!merges && has_type(pre_tokenizer, "ByteLevel") && pre_tokenizer.is_object())
      pre_tokenizer["use_regex"] = true;
    parts_.steps = read_split_steps(pre_tokenizer, name_);
    if (parts_.steps.size() == 1 && parts_.steps[0].kind == SplitStep::Kind::pattern) {
      parts_.pattern = parts_.steps[0].pattern;
      parts_.steps.clear();
    }
  }

  void read_added() {
    parts_.added = read_added_tokens(root_, name_);
    for (const AddedToken& token : parts_.added)
      added_ids_.emplace(token.id, token.text);
  }

  void read_vocab() {
    const AlphabetReader alphabet;
    visit_vocab(model_, name_, [&](const std::string& token, int64_t id) {
      if (const auto found = added_ids_.find(id); found != added_ids_.end()) {
        // An added token may also be in the vocabulary. A merge may even produce this token.
        const auto bytes = alphabet.bytes_of(token);
        if (found->second != token && found->second != bytes)
          fail("cannot read {}: the id {} is assigned to two tokens", name_, id);
        if (!bytes) return;
      }
      auto& tokens = parts_.tokens;
      if (id >= std::ssize(tokens)) tokens.resize(static_cast<size_t>(id) + 1);
      std::string& bytes = tokens[static_cast<size_t>(id)];
      if (!bytes.empty()) fail("cannot read {}: the id {} is assigned to two tokens", name_, id);
      bytes = bytes_of(alphabet, token, name_);
      index_.add(token, static_cast<int32_t>(id));
    });
  }

  // The unknown token is only needed if the vocabulary lacks some bytes.
  void read_unknown() {
    const Json& unk = member(model_, "unk_token");
    if (!unk.is_string()) return;
    const Json& id = member(member(model_, "vocab"), unk.get_ref<const std::string&>().c_str());
    if (!id.is_null()) parts_.unknown = static_cast<int32_t>(id.get<int64_t>());
    const auto& bytes = byte_level_alphabet();
    const auto is_token = [&](char32_t c) {
      std::string text;
      append_utf8(text, c);
      return index_.find(text) >= 0;
    };
    if (id.is_null() && !std::ranges::all_of(bytes, is_token)) {
      fail("cannot read {}: the unk_token {} is not in the vocabulary", name_,
           printable_text(unk.get_ref<const std::string&>(), 40));
    }
  }

  const Json& root_;
  const Json& model_;
  const std::string& name_;
  BpeParts parts_;
  TokenIndex index_;
  std::unordered_map<int64_t, std::string> added_ids_;
};

}  // namespace

int64_t read_token_id(const Json& value, const std::string& token, const std::string& name) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxVocab) {
    fail("cannot read {}: token {}: expected an id from 0 to {}, found {}", name, printable_text(token, 40),
         kMaxVocab - 1, printable_text(value.dump(), 40));
  }
  return value.get<int64_t>();
}

namespace {

// Checks that an added token has the id that Hugging Face tokenizers would assign. The library ignores the id
// in the file. A token in the vocabulary keeps its id there, and any other token gets the next free id.
void check_added_id(const std::string& text, int64_t id, const Json& vocab, int64_t next,
                    const std::string& name) {
  const auto known = vocab.is_object() ? vocab.find(text) : vocab.end();
  const bool in_vocab = known != vocab.end();
  if (in_vocab && *known != id) {
    fail("cannot read {}: the added token {} has the id {}, but its id in the vocabulary is {}", name,
         printable_text(text, 40), id, known->dump());
  }
  if (!in_vocab && id != next) {
    fail("cannot read {}: the added token {} has the id {}; expected the next free id, {}", name,
         printable_text(text, 40), id, next);
  }
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const Json& root, const std::string& name) {
  const Json& added = member(root, "added_tokens");
  if (!added.is_null() && !added.is_array())
    fail("cannot read {}: expected \"added_tokens\" to be a list", name);
  std::vector<AddedToken> tokens;
  std::unordered_set<int64_t> ids;
  std::unordered_set<std::string> texts;
  const Json& vocab = member(member(root, "model"), "vocab");
  int64_t next = std::ssize(vocab);
  for (const Json& entry : added) {
    if (!entry.is_object() || !member(entry, "content").is_string()) {
      fail("cannot read {}: expected an added token with a \"content\", found {}", name,
           printable_text(entry.dump(), 80));
    }
    const std::string& text = entry["content"].get_ref<const std::string&>();
    const int64_t id = read_token_id(member(entry, "id"), text, name);
    if (!ids.insert(id).second) fail("cannot read {}: the id {} is assigned to two tokens", name, id);
    if (!text.empty()) {  // an empty text is reported by AddedTokens
      if (!texts.insert(text).second)
        fail("cannot read {}: the added token {} is listed twice", name, printable_text(text, 40));
      check_added_id(text, id, vocab, next, name);
      next = std::max(next, id + 1);
    }
    tokens.push_back({.id = static_cast<int32_t>(id),
                      .text = text,
                      .special = !unused(member(entry, "special")),
                      .single_word = !unused(member(entry, "single_word")),
                      .lstrip = !unused(member(entry, "lstrip")),
                      .rstrip = !unused(member(entry, "rstrip")),
                      .normalized = !unused(member(entry, "normalized"))});
  }
  return tokens;
}

Json added_token_json(const AddedToken& token) {
  const auto id = static_cast<uint32_t>(token.id);  // a JSON number without a sign
  return {{"id", id},
          {"content", token.text},
          {"single_word", token.single_word},
          {"lstrip", token.lstrip},
          {"rstrip", token.rstrip},
          {"normalized", token.normalized},
          {"special", token.special}};
}

const Json& vocab_of(const Json& model, const std::string& name) {
  const Json& vocab = member(model, "vocab");
  if (!vocab.is_object() || vocab.empty())
    fail("cannot read {}: expected model.vocab to be an object that maps tokens to ids", name);
  return vocab;
}

void visit_vocab(const Json& model, const std::string& name,
                 const std::function<void(const std::string& token, int64_t id)>& visit) {
  for (const auto& [token, value] : vocab_of(model, name).items()) {
    const int64_t id = read_token_id(value, token, name);
    if (token.empty()) fail("cannot read {}: the token {} is empty", name, id);
    visit(token, id);
  }
}

std::vector<Bpe::Merge> read_merges(const Json& model, const TokenIndex& index, const std::string& name) {
  const Json& list = member(model, "merges");
  if (!list.is_array()) fail("cannot read {}: expected model.merges to be a list", name);
  std::vector<Bpe::Merge> merges;
  for (const Json& merge : list) {
    const size_t at = merges.size();
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.push_back(index.merge(merge[0].get<std::string>(), merge[1].get<std::string>(), at));
    } else if (merge.is_string()) {
      merges.push_back(index.merge(merge.get_ref<const std::string&>(), at));
    } else {
      fail("cannot read {}: merge {}: expected two tokens, found {}", name, at,
           printable_text(merge.dump(), 80));
    }
  }
  return merges;
}

BpeParts read_bpe_json(const Json& root, const std::string& name) {
  return Reader(root, name).read();
}

namespace {

// Returns the tokenizer.json that corresponds to the tokenizer class of a folder, without vocabulary and
// merges.
Json json_of_class(const FolderTokens& more, const std::string& name) {
  Json root = json_without_merges(Json::object(), byte_level_json(true), byte_level_json(true));
  const std::string& of = more.tokenizer_class;
  const bool none = of.empty() && more.model_type.empty();
  if (none || of == "GPT2Tokenizer" || of == "CodeGenTokenizer" || of == "WhisperTokenizer") return root;
  if (of != "Qwen2Tokenizer") {
    fail(
        "cannot read {}: vocab.json and merges.txt of a {} require a tokenizer.json; save one with "
        "transformers",
        name,
        of.empty() ? fmt::format("model of model_type {}", printable_text(more.model_type, 40))
                   : printable_text(of, 40));
  }
  root["normalizer"] = {{"type", "NFC"}};
  root["pre_tokenizer"] = split_steps_json({{.pattern = SplitPattern::qwen2}});
  root["pre_tokenizer"]["pretokenizers"].back()["add_prefix_space"] = more.prefix_space.value_or(false);
  return root;
}

}  // namespace

Json json_of_vocab_and_merges(std::string_view vocab, std::string_view merges, const FolderTokens& more,
                              const std::string& name) {
  Json tokens = parse_limited_json(vocab, name + "/vocab.json");
  if (!tokens.is_object())
    fail("cannot read {}/vocab.json: expected an object that maps tokens to ids", name);
  Json lines = Json::array();
  bool words_end = false;
  for (const std::string_view view : lines_of(merges)) {
    std::string line(view);
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (view.data() == merges.data() && line.starts_with("#version"))) continue;
    words_end |= line.ends_with("</w>");
    lines.push_back(std::move(line));
  }
  const bool no_class = more.tokenizer_class.empty() && more.model_type.empty();
  if (more.tokenizer_class == "OpenAIGPTTokenizer" || (no_class && words_end))
    return gpt1_json_of_vocab_and_merges(std::move(tokens), std::move(lines));
  Json root = json_of_class(more, name);
  root["model"]["vocab"] = std::move(tokens);
  root["model"]["merges"] = std::move(lines);
  // The files do not list <|endoftext|>, but GPT-2 separates documents with it.
  const std::string end_of_text = "<|endoftext|>";
  const Json& id = member(root["model"]["vocab"], end_of_text.c_str());
  if (!id.is_null())
    root["added_tokens"].push_back({{"id", id}, {"content", end_of_text}, {"special", true}});
  return root;
}

}  // namespace gpt::detail

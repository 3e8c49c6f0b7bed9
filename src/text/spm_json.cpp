#include "text/spm_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/bpe_json.h"
#include "text/json_parts.h"
#include "text/post_processor.h"
#include "text/spm_merges.h"
#include "text/token_index.h"
#include "text/tokenizer_kinds.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;
using Prefix = SpmParts::Prefix;
using Strip = SpmParts::Strip;

const std::string kBlankText(kBlank);

Json replace_json(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

// Returns the steps of a normalizer, pre_tokenizer or decoder. If the value is not a Sequence, the value
// itself is the only step.
std::vector<Json> steps_of(const Json& value, const char* list) {
  if (value.is_null()) return {};
  if (!has_type(value, "Sequence")) return {value};
  const Json& steps = member(value, list);
  return steps.is_array() ? steps.get<std::vector<Json>>() : std::vector<Json>{value};
}

bool is_replace(const Json& step, const std::string& from, const std::string& to) {
  const Json& pattern = member(step, "pattern");
  return has_type(step, "Replace") && pattern.is_object() && member(pattern, "String") == from &&
         member(step, "content") == to;
}

// The regular expressions of the two steps that implement SentencePiece's remove_extra_whitespaces. The
// expressions use \A and \z, because ^ and $ match at every line in Hugging Face tokenizers. SentencePiece
// also removes U+2581 at the end of a text.
const std::string kSpacesAtEnds = "\\A +|[ \xE2\x96\x81]+\\z", kRepeatedSpaces = " {2,}";

Json replace_regex_json(const std::string& pattern, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", to}};
}

std::string type_of(const Json& step) {
  const Json& type = step.is_object() ? member(step, "type") : step;
  return type.is_string() ? printable_text(type.get_ref<const std::string&>(), 40) : "(none)";
}

// Throws Error if a merge uses characters that are not pieces. SentencePiece models allow such merges, but
// tokenizer.json cannot represent them.
void require_pieces(const SpmParts& parts, const std::vector<Bpe::Merge>& merges) {
  for (const Bpe::Merge& m : merges) {
    if (std::cmp_greater_equal(std::max(m.left, m.right), parts.pieces.size()))
      fail(
          "a tokenizer.json cannot represent the merge for piece {}, which uses characters outside the "
          "vocabulary",
          m.result);
  }
}

class SpmReader {
 public:
  SpmReader(const Json& root, const std::string& name)
      : root_(root), model_(root["model"]), name_(name), index_(name) {}

  SpmParts read() {
    require_unused(model_, {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"},
                   name_);
    parts_.by_score = false;
    parts_.prefix = Prefix::never;
    parts_.fuse_unknown = !unused(member(model_, "fuse_unk"));
    read_normalizer();
    read_pre_tokenizer();
    if (!has_blanks_) fail_kind(name_, "a tokenizer that does not replace spaces by U+2581");
    read_decoder();
    read_vocab();
    parts_.special = read_post_processor(root_, name_);
    read_added();
    read_unknown();
    parts_.merges = read_merges(model_, index_, name_);
    return std::move(parts_);
  }

 private:
  void read_normalizer() {
    std::vector<Json> steps = steps_of(member(root_, "normalizer"), "normalizers");
    if (steps.size() > 2 && steps[0] == replace_regex_json(kSpacesAtEnds, "") &&
        steps[1] == replace_regex_json(kRepeatedSpaces, " ")) {
      parts_.collapse_blanks = true;
      steps.erase(steps.begin(), steps.begin() + 2);
    }
    for (const Json& step : steps) {
      const bool prepends = has_type(step, "Prepend") && (member(step, "prepend") == kBlankText);
      // The order of Prepend and Replace does not matter: the prepended space becomes U+2581 in both cases.
      if (prepends && !has_blanks_) {
        parts_.prefix = Prefix::every_part;
      } else if (is_replace(step, " ", kBlankText)) {
        has_blanks_ = true;
      } else {
        fail_kind(name_, "the normalizer " + type_of(step));
      }
    }
  }

  void read_pre_tokenizer() {
    for (const Json& step : steps_of(member(root_, "pre_tokenizer"), "pretokenizers")) {
      const Json& pattern = member(step, "pattern");
      // Gemma's tokenizer.json has this step, which splits nothing, because spaces have already become
      // U+2581.
      if (has_blanks_ && has_type(step, "Split") && pattern.is_object() && member(pattern, "String") == " ")
        continue;
      if (!has_type(step, "Metaspace") || parts_.collapse_blanks)
        fail_kind(name_, "the pre_tokenizer " + type_of(step));
      if (member(step, "replacement") != kBlankText)
        fail_kind(name_, "a Metaspace with a replacement other than U+2581");
      has_blanks_ = true;
      parts_.prefix = read_scheme(step);
      parts_.prefix_once = true;
      const Json& split = member(step, "split");
      parts_.split_words = split.is_null() || !unused(split);
    }
  }

  Prefix read_scheme(const Json& metaspace) const {
    const Json& scheme = member(metaspace, "prepend_scheme");
    if (scheme == "always") return Prefix::every_part;
    if (scheme == "first") return Prefix::at_begin;
    if (scheme == "never") return Prefix::never;
    if (!scheme.is_null()) fail_kind(name_, "the prepend_scheme " + printable_text(scheme.dump(), 40));
    const Json& old = member(metaspace, "add_prefix_space");  // files from before 2024
    return old.is_null() || !unused(old) ? Prefix::every_part : Prefix::never;
  }

  void read_decoder() {
    parts_.strip = Strip::none;
    parts_.byte_decoder = false;
    for (const Json& step : steps_of(member(root_, "decoder"), "decoders")) {
      if (has_type(step, "Strip") && member(step, "content") == " " && member(step, "start") == 1 &&
          member(step, "stop") == 0) {
        parts_.strip = Strip::first_byte;
      } else if (has_type(step, "Metaspace")) {
        parts_.strip = read_scheme(step) != Prefix::never ? Strip::first_token : Strip::none;
      } else if (has_type(step, "ByteFallback")) {
        parts_.byte_decoder = true;
      } else if (!is_replace(step, kBlankText, " ") && !has_type(step, "Fuse")) {
        fail_kind(name_, "the decoder " + type_of(step));
      }
    }
  }

  SpmParts::Piece& piece_at(int64_t id) {
    if (id >= std::ssize(parts_.pieces)) parts_.pieces.resize(static_cast<size_t>(id) + 1);
    return parts_.pieces[static_cast<size_t>(id)];
  }

  void read_vocab() {
    const bool bytes = !unused(member(model_, "byte_fallback"));
    visit_vocab(model_, name_, [&](const std::string& token, int64_t id) {
      SpmParts::Piece& piece = piece_at(id);
      if (!piece.text.empty()) fail("cannot read {}: the id {} is assigned to two tokens", name_, id);
      const bool is_byte = bytes && byte_of_piece(token) >= 0;
      piece = {token, 0, is_byte ? SpmParts::Type::byte : SpmParts::Type::normal};
      index_.add(token, static_cast<int32_t>(id));
    });
  }

  void read_added() {
    parts_.added = read_added_tokens(root_, name_);
    for (const AddedToken& token : parts_.added) {
      SpmParts::Piece& piece = piece_at(token.id);
      if (!piece.text.empty() && piece.text != token.text)
        fail("cannot read {}: the id {} is assigned to two tokens", name_, token.id);
      // The spelling of an added token in the vocabulary is ignored, because added tokens are matched before
      // spaces become U+2581.
      const auto type = piece.text.empty() ? SpmParts::Type::user_defined : piece.type;
      // If a special token is a single character or a byte of ordinary text, the token stays a normal piece
      // of the model.
      const bool is_of_text =
          !piece.text.empty() && (is_one_character(token.text) || type == SpmParts::Type::byte);
      piece = {token.text, 0, token.special && !is_of_text ? SpmParts::Type::control : type};
    }
  }

  void read_unknown() {
    const Json& unk = member(model_, "unk_token");
    if (unk.is_null()) return;
    parts_.special.unk = unk.is_string() ? index_.find(unk.get<std::string>()) : -1;
    if (parts_.special.unk < 0)
      fail("cannot read {}: the unk_token {} is not in the vocabulary", name_,
           printable_text(unk.dump(), 40));
    parts_.pieces[static_cast<size_t>(parts_.special.unk)].type = SpmParts::Type::unknown;
  }

  const Json& root_;
  const Json& model_;
  const std::string& name_;
  SpmParts parts_;
  TokenIndex index_;
  bool has_blanks_ = false;
};

// Returns the size of the vocabulary of the model. Added tokens after the last other token are not part of
// this vocabulary. Hugging Face tokenizers would otherwise also use the ids of these tokens for characters.
size_t model_size(const SpmParts& parts, const std::vector<Bpe::Merge>& merges) {
  using Type = SpmParts::Type;
  size_t size = parts.pieces.size();
  const auto is_added = [](const SpmParts::Piece& piece) {
    return !piece.text.empty() && (piece.type == Type::control || piece.type == Type::user_defined);
  };
  while (size > 0 && is_added(parts.pieces[size - 1]))
    --size;
  for (const Bpe::Merge& m : merges)
    size = std::max(size, static_cast<size_t>(std::max({m.left, m.right, m.result})) + 1);
  // The Hugging Face library gives the added tokens ids from the vocabulary size on. If some ids are unused,
  // the vocabulary therefore includes the added tokens.
  const bool has_holes =
      std::any_of(parts.pieces.begin(), parts.pieces.begin() + static_cast<std::ptrdiff_t>(size),
                  [](const SpmParts::Piece& piece) { return piece.text.empty(); });
  return has_holes ? parts.pieces.size() : size;
}

Json added_json(const SpmParts& parts) {
  std::vector<AddedToken> tokens = parts.added;
  const AddedTokens added(parts.added);
  for (size_t id = 0; id < parts.pieces.size(); ++id) {
    const SpmParts::Piece& piece = parts.pieces[id];
    if (piece.type == SpmParts::Type::user_defined && added.find(static_cast<int32_t>(id)) == nullptr)
      tokens.push_back({.id = static_cast<int32_t>(id), .text = piece.text, .special = false});
  }
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  return transformed(tokens, added_token_json);
}

}  // namespace

bool is_spm_json(const Json& root) {
  if (!unused(member(member(root, "model"), "byte_fallback"))) return true;
  for (const auto& [part, list] :
       {std::pair("normalizer", "normalizers"), {"pre_tokenizer", "pretokenizers"}}) {
    for (const Json& step : steps_of(member(root, part), list)) {
      if (step.is_object() && (has_type(step, "Metaspace") || is_replace(step, " ", kBlankText))) return true;
    }
  }
  return false;
}

SpmParts read_spm_json(const Json& root, const std::string& name) {
  return SpmReader(root, name).read();
}

std::string spm_json(const SpmParts& parts, const std::vector<Bpe::Merge>& merges) {
  Json vocab = Json::object(), pairs = Json::array(), normalizers = Json::array();
  bool has_bytes = false;
  require_pieces(parts, merges);
  const size_t in_model = model_size(parts, merges);
  for (size_t id = 0; id < parts.pieces.size(); ++id) {
    const SpmParts::Piece& piece = parts.pieces[id];
    if (!piece.text.empty() && id < in_model) vocab[piece.text] = id;
    has_bytes |= piece.type == SpmParts::Type::byte;
  }
  for (const Bpe::Merge& m : merges) {
    if (std::max(m.left, m.right) >= std::ssize(parts.pieces))
      fail(
          "a tokenizer.json cannot represent the merge for piece {}, which uses characters outside the "
          "vocabulary",
          m.result);
    const auto text = [&](int32_t id) { return parts.pieces[static_cast<size_t>(id)].text; };
    pairs.push_back({text(m.left), text(m.right)});
  }
  Json decoders = Json::array({replace_json(kBlankText, " ")});
  if (parts.byte_decoder.value_or(true)) decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (parts.strip == Strip::first_token)
    decoders[0] = {
        {"type", "Metaspace"}, {"replacement", kBlankText}, {"prepend_scheme", "always"}, {"split", true}};
  if (parts.strip == Strip::first_byte || parts.strip == Strip::sentencepiece)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  Json pre_tokenizer = nullptr;
  Json normalizer = nullptr;
  if (parts.prefix_once || parts.prefix == Prefix::at_begin || parts.split_words) {
    const char* scheme = parts.prefix == Prefix::never      ? "never"
                         : parts.prefix == Prefix::at_begin ? "first"
                                                            : "always";
    pre_tokenizer = {{"type", "Metaspace"},
                     {"replacement", kBlankText},
                     {"prepend_scheme", scheme},
                     {"split", parts.split_words}};
  } else {
    if (parts.collapse_blanks) {
      normalizers.push_back(replace_regex_json(kSpacesAtEnds, ""));
      normalizers.push_back(replace_regex_json(kRepeatedSpaces, " "));
    }
    if (parts.prefix == Prefix::every_part)
      normalizers.push_back({{"type", "Prepend"}, {"prepend", kBlankText}});
    normalizers.push_back(replace_json(" ", kBlankText));
    normalizer = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  }
  Json root = json_without_merges(std::move(vocab), std::move(pre_tokenizer),
                                  {{"type", "Sequence"}, {"decoders", std::move(decoders)}});
  root["normalizer"] = std::move(normalizer);
  root["added_tokens"] = added_json(parts);
  root["model"]["merges"] = std::move(pairs);
  root["model"]["byte_fallback"] = has_bytes;
  root["model"]["fuse_unk"] = parts.fuse_unknown;
  root["post_processor"] = post_processor_json(
      parts.special, [&](int64_t id) { return parts.pieces[static_cast<size_t>(id)].text; });
  if (parts.special.unk >= 0)
    root["model"]["unk_token"] = parts.pieces[static_cast<size_t>(parts.special.unk)].text;
  return root.dump();
}

}  // namespace gpt::detail

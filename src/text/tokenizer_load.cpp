#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/bpe_json.h"
#include "text/byte_level.h"
#include "text/c_vocab.h"
#include "text/folder_tokens.h"
#include "text/gpt1_tokenizer.h"
#include "text/json_parts.h"
#include "text/post_processor.h"
#include "text/spm_json.h"
#include "text/spm_model.h"
#include "text/spm_tokenizer.h"
#include "text/tasks_folder.h"
#include "text/tiktoken.h"
#include "text/tokenizer_kinds.h"

namespace gpt {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): this file creates all tokenizers
using Json = nlohmann::json;

// The largest published tokenizer.json files are about 35 MB.
constexpr uint64_t kMaxTokenizerBytes = uint64_t{64} << 20;

// Returns the characters of a vocabulary in the order of their ids. Every token must be a single character,
// and the ids must be 0 to n-1, each exactly once.
std::vector<char32_t> read_vocab(const Json& vocab, const std::string& name) {
  const size_t size = vocab.size();
  std::vector<std::optional<char32_t>> codes(size);
  for (const auto& [token, value] : vocab.items()) {
    const Utf8Char c = token.empty() ? Utf8Char{} : decode_utf8(token, 0);
    if (c.status != Utf8Status::valid || static_cast<size_t>(c.length) != token.size()) {
      fail_kind(name, fmt::format("the multi-character token {} without merges", Json(token).dump()));
    }
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= size) {
      fail("cannot read {}: token {}: expected an id from 0 to {}, found {}", name, Json(token).dump(),
           size - 1, printable_text(value.dump(), 40));
    }
    auto& code = codes[value.get<size_t>()];
    if (code) fail("cannot read {}: the id {} is assigned to two tokens", name, value.get<size_t>());
    code = c.code;
  }
  // No id is missing, because there are n distinct ids below n.
  return transformed(codes, [](const auto& code) { return *code; });
}

}  // namespace

namespace detail {

void fail_token_id(int64_t id, int64_t vocab_size) {
  fail("token id {} is not in the vocabulary: expected 0 to {}", id, vocab_size - 1);
}

Json byte_level_json(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json json_without_merges(Json vocab, Json pre_tokenizer, Json decoder) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocab)},
            {"merges", Json::array()}}}};
}

}  // namespace detail

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  return sum_of(ids, [this](int32_t id) { return token_bytes(id); });
}

namespace {

template <class Parts, class Make>
std::unique_ptr<Tokenizer> make_from(Parts parts, Make&& make, const std::string& name) {
  return naming_file(name, [&] { return make(std::move(parts)); });
}

void add_to_ranks(BpeParts& parts, const FolderTokens& more, int64_t limit) {
  const auto id_of = [&](const std::string& text) -> int64_t {
    const auto found = std::ranges::find(parts.tokens, text);
    return found == parts.tokens.end() ? -1 : found - parts.tokens.begin();
  };
  const VocabularyView vocabulary = {.id_of = id_of, .size = std::ssize(parts.tokens), .keeps_ids = true};
  parts.added = with_folder_tokens(std::move(parts.added), more, vocabulary, limit);
}

// Gives each piece the text of the listed token with the same id, as in transformers. A piece keeps its text
// if a piece that is not renamed already has the new text.
void rename_pieces(SpmParts& parts, const FolderTokens& more) {
  std::unordered_map<std::string, int64_t> kept;
  for (size_t id = 0; id < parts.pieces.size(); ++id)
    kept.emplace(parts.pieces[id].text, static_cast<int64_t>(id));
  for (const AddedToken& token : more.listed) {
    if (token.id < std::ssize(parts.pieces)) kept.erase(parts.pieces[static_cast<size_t>(token.id)].text);
  }
  for (const AddedToken& token : more.listed) {
    if (token.id >= std::ssize(parts.pieces) || kept.contains(token.text)) continue;
    const auto added = std::ranges::find(parts.added, token.id, &AddedToken::id);
    if (added != parts.added.end()) added->text = token.text;
    parts.pieces[static_cast<size_t>(token.id)].text = token.text;
  }
}

void add_to_pieces(SpmParts& parts, FolderTokens more, int64_t limit) {
  parts.special.add_bos = more.add_bos;
  parts.special.add_eos = more.add_eos;
  if (more.empty()) return;
  // If spaces are prepended, listed tokens are matched in the original text. A space is then prepended to
  // each part of the text between the tokens.
  for (AddedToken& token : more.listed)
    token.normalized = token.normalized && parts.prefix == SpmParts::Prefix::never;
  rename_pieces(parts, more);
  std::unordered_map<std::string, int64_t> ids;
  for (size_t id = 0; id < parts.pieces.size(); ++id)
    ids.emplace(parts.pieces[id].text, static_cast<int64_t>(id));
  const auto id_of = [&](const std::string& text) {
    const auto found = ids.find(text);
    return found == ids.end() ? -1 : found->second;
  };
  parts.added = with_folder_tokens(std::move(parts.added), more,
                                   {.id_of = id_of, .size = std::ssize(parts.pieces)}, limit);
  for (const AddedToken& token : parts.added) {
    const auto id = static_cast<size_t>(token.id);
    const bool is_new = id >= parts.pieces.size();
    if (is_new) parts.pieces.resize(id + 1);
    SpmParts::Piece& piece = parts.pieces[id];
    const bool is_character = piece.type == SpmParts::Type::normal && !is_new && is_one_character(token.text);
    if (token.special && piece.type != SpmParts::Type::unknown && !is_character)
      piece.type = SpmParts::Type::control;
    if (is_new && !token.special) piece.type = SpmParts::Type::user_defined;
    piece.text = token.text;
    ids.emplace(token.text, token.id);
  }
  if (more.bos) parts.special.bos = id_of(*more.bos);
  if (more.eos && !more.eos->empty()) parts.special.eos = id_of(*more.eos);
}

// Parses a tokenizer.model, which is a SentencePiece model (it begins with field 1) or a file of tiktoken
// ranks. If `folder` is not empty, the other tokenizer files in this folder are used too.
std::unique_ptr<Tokenizer> parse_model(std::string_view bytes, const std::string& name,
                                       const std::string& folder = "", int64_t limit = INT64_MAX) {
  const auto more = [&](VocabularyFile kind) {
    return folder.empty() ? FolderTokens{} : read_folder_tokens(folder, kind);
  };
  if (is_rank_file(bytes)) {
    BpeParts parts = read_rank_file(bytes, name);
    add_to_ranks(parts, more(VocabularyFile::ranks), limit);
    return make_from(std::move(parts), make_bpe_tokenizer, name);
  }
  SpmParts parts = spm_parts(parse_spm_model(bytes, name), name);
  add_to_pieces(parts, more(VocabularyFile::sentencepiece), limit);
  return make_from(std::move(parts), make_spm_tokenizer, name);
}

std::unique_ptr<Tokenizer> parse_bin(std::string_view bytes, const std::string& name) {
  return is_llmc_tokenizer(bytes) ? read_llmc_tokenizer(bytes, name) : read_llama2c_tokenizer(bytes, name);
}

[[noreturn]] void fail_pickle(const std::string& path) {
  fail(
      "cannot read {}: a Python pickle can execute arbitrary code; save the tokenizer as tokenizer.json or "
      "as a tiktoken file (one line per token, with its bytes in base64 and its rank)",
      path);
}

// Returns true for a byte-level BPE that has no merges, but splits text or has added tokens. The byte
// tokenizer supports neither split patterns nor added tokens.
bool is_bpe_without_merges(const Json& root) {
  const Json& pre_tokenizer = member(root, "pre_tokenizer");
  if (!has_type(member(root, "decoder"), "ByteLevel") || !pre_tokenizer.is_object()) return false;
  const Json& regex = member(pre_tokenizer, "use_regex");
  return !has_type(pre_tokenizer, "ByteLevel") || regex.is_null() || !unused(regex) ||
         !unused(member(root, "added_tokens"));
}

Json parse_root(std::string_view json, const std::string& name) {
  Json root = parse_limited_json(json, name);
  unwrap_sequence(root, "normalizer", "normalizers");
  unwrap_sequence(root, "pre_tokenizer", "pretokenizers");
  unwrap_sequence(root, "decoder", "decoders");
  return root;
}

// Throws Error if the post_processor adds tokens. Called for tokenizers that do not support special tokens.
void require_no_ends(const Json& root, const std::string& name) {
  const SpecialIds ends = read_post_processor(root, name);
  if (ends.add_bos || ends.add_eos) fail_kind(name, "a post_processor that adds tokens");
}

std::unique_ptr<Tokenizer> make_any(const Json& root, const std::string& name) {
  if (!root.is_object() || !member(root, "model").is_object()) {
    fail("cannot read {}: expected a tokenizer.json with an object \"model\"", name);
  }
  check_settings(root, name);
  const Json& model = root["model"];
  if (!has_type(model, "BPE")) {
    const Json& type = member(model, "type");
    fail_kind(name, "model type " + (type.is_null() ? "(none)" : printable_text(type.dump(), 40)));
  }
  if (is_gpt1_json(root)) {
    require_no_ends(root, name);
    return make_from(read_gpt1_json(root, name), make_gpt1_tokenizer, name);
  }
  if (is_spm_json(root)) return make_from(read_spm_json(root, name), make_spm_tokenizer, name);
  if (!unused(member(model, "merges")) || is_bpe_without_merges(root))
    return make_from(read_bpe_json(root, name), make_bpe_tokenizer, name);
  require_unused(root, {"added_tokens", "normalizer"}, name);
  require_no_ends(root, name);
  require_unused(model,
                 {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"},
                 name);
  const std::vector<char32_t> codes = read_vocab(vocab_of(model, name), name);
  const Json& pre_tokenizer = member(root, "pre_tokenizer");
  if (has_type(pre_tokenizer, "ByteLevel") && has_type(member(root, "decoder"), "ByteLevel")) {
    require_unused(pre_tokenizer, {"add_prefix_space"}, name);
    if (!std::ranges::equal(codes, detail::byte_level_alphabet())) {
      fail_kind(name, "a byte-level vocabulary whose ids are not the byte values");
    }
    return make_byte_tokenizer();
  }
  require_unused(root, {"pre_tokenizer"}, name);
  if (!has_type(member(root, "decoder"), "Fuse")) fail_kind(name, "a decoder other than Fuse");
  return detail::make_char_tokenizer_from_codes(codes);
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name) {
  if (json.size() > kMaxTokenizerBytes) {
    fail("cannot read {}: expected at most {} bytes, found {}", name, kMaxTokenizerBytes, json.size());
  }
  return make_any(parse_root(json, name), name);
}

bool has_tokenizer(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path at(folder);
  const auto exists = [&](const char* name) { return std::filesystem::exists(at / name, ignored); };
  return exists("tokenizer.json") || exists("tokenizer.model") || exists(kLlama2cTokenizerFile) ||
         exists(kLlmcTokenizerFile) || (exists("vocab.json") && exists("merges.txt"));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  return load_model_tokenizer(path, INT64_MAX);
}

std::unique_ptr<Tokenizer> load_model_tokenizer(const std::string& path, int64_t vocab_size) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (path.ends_with(".pkl")) fail_pickle(path);
    const std::string content = read_file(path, kMaxTokenizerBytes);
    if (path.ends_with(".bin")) return parse_bin(content, path);
    const bool is_model = path.ends_with(".model") || is_rank_file(content);
    return is_model ? parse_model(content, path) : parse_tokenizer(content, path);
  }
  // A training run stores its models and their tokenizers in subfolders.
  const std::string last = (fs::path(path) / "last").string();
  if (!has_tokenizer(path) && has_tokenizer(last)) return load_model_tokenizer(last, vocab_size);
  const auto file = [&](const char* name) { return (fs::path(path) / name).string(); };
  const auto exists = [&](const char* name) { return fs::exists(file(name), ignored); };
  const auto read = [&](const char* name) { return read_file(file(name), kMaxTokenizerBytes); };
  if (exists("tokenizer.json")) {
    Json root = parse_root(read("tokenizer.json"), file("tokenizer.json"));
    const bool byte_level = root.is_object() && has_type(member(root, "decoder"), "ByteLevel");
    const auto kind = byte_level ? VocabularyFile::byte_level_json : VocabularyFile::json;
    add_folder_tokens(root, read_folder_tokens(path, kind), vocab_size, file("tokenizer.json"));
    return make_any(root, file("tokenizer.json"));
  }
  if (exists("vocab.json") && exists("merges.txt")) {
    const FolderTokens more = read_folder_tokens(path, VocabularyFile::vocab_and_merges);
    Json root = json_of_vocab_and_merges(read("vocab.json"), read("merges.txt"), more, path);
    add_folder_tokens(root, more, vocab_size, path);
    add_folder_ends(root, more);
    return make_any(root, path);
  }
  if (exists("tokenizer.model"))
    return parse_model(read("tokenizer.model"), file("tokenizer.model"), path, vocab_size);
  for (const char* name : {kLlama2cTokenizerFile, kLlmcTokenizerFile}) {
    if (exists(name)) return parse_bin(read(name), file(name));
  }
  if (exists("tokenizer.pkl")) fail_pickle(file("tokenizer.pkl"));
  if (exists(kTasksFolder))
    fail(
        "no tokenizer in {}, only results of training tasks; when all tasks are complete, run gpt tokenizer "
        "train --out {} --merge",
        path, path);
  fail("no tokenizer in {}: expected tokenizer.json, vocab.json and merges.txt, or tokenizer.model", path);
}

}  // namespace gpt

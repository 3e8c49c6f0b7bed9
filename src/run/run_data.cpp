#include "run/run_data.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "convert/gguf_vocab.h"
#include "data/preview.h"
#include "data/shard_set.h"
#include "data/tales.h"
#include "data/text_blocks.h"
#include "data/unknown_tokens.h"
#include "data/weighted_name.h"
#include "model/model_files.h"
#include "run/trained_validation.h"
#include "text/folder_tokens.h"

namespace gpt {
namespace {

constexpr int64_t kTalesBytes = int64_t{4} << 20;

// Parses "tales" or "tales:BYTES" and returns the number of bytes. Returns 0 for any other name.
int64_t tales_bytes(const std::string& name) {
  if (name == "tales") return kTalesBytes;
  constexpr std::string_view kPrefix = "tales:";
  if (!name.starts_with(kPrefix)) return 0;
  const auto bytes = parse_number<int64_t>(std::string_view(name).substr(kPrefix.size()));
  if (!bytes || *bytes < 1) fail_usage("data \"{}\": expected tales:BYTES with a positive number", name);
  return *bytes;
}

// Describes an entry of the config key "data".
struct Source {
  std::string name;
  std::optional<double> weight;
  ShardSet shards;  // set if the entry consists of token shards
  Corpus text;      // set otherwise

  bool is_tokens() const { return !shards.shards.empty(); }
  const std::string& notes() const { return is_tokens() ? shards.notes : text.notes; }
};

struct SourceOptions {
  uint64_t seed = 1;
  CorpusOptions corpus;
};

// Loads a corpus from paths, or generates the built-in corpus ("tales", "tales:BYTES"). first_story is the
// index of the first story to generate (generate_tales). The function sets first_story to the index after the
// last generated story.
Corpus load_named_corpus(const std::vector<std::string>& names, const SourceOptions& options,
                         int64_t& first_story, std::optional<double>& floor) {
  if (names.size() != 1 || tales_bytes(names[0]) == 0) return load_corpus(names, options.corpus);
  require_memory(names[0], tales_bytes(names[0]));
  TalesText tales = generate_tales(tales_bytes(names[0]), options.seed, first_story);
  first_story = tales.next_story;
  floor = tales_entropy_per_byte();
  return corpus_from_text("tales", std::move(tales.text));
}

// Removes the shards that an earlier entry of "data" has already named.
void take_once(ShardSet& set, NamedFiles& named) {
  ShardSet kept{.shards = {}, .checksums = {}, .notes = std::move(set.notes)};
  for (size_t i = 0; i < set.shards.size(); ++i) {
    if (!named.add(set.shards[i].name())) continue;
    kept.shards.push_back(set.shards[i]);
    kept.checksums.push_back(set.checksums[i]);
  }
  kept.notes += named.notes();
  set = std::move(kept);
}

// Returns true if a source is empty because earlier entries named all of its files.
bool is_repeated(const Source& source, std::string& notes) {
  if (source.is_tokens() || !source.text.text.empty()) return false;
  if (source.weight) fail_usage("data: {} is listed twice; list it once, with one weight", source.name);
  notes += source.shards.notes + source.text.notes;
  return true;
}

// Opens all entries of "data". Texts without weights are combined into a single source. A file that is named
// several times is only used once, and `notes` reports the omitted entries.
std::vector<Source> find_sources(const std::vector<std::string>& entries, SourceOptions options,
                                 int64_t& story, std::optional<double>& floor, std::string& notes) {
  std::vector<Source> sources;
  NamedFiles named;
  options.corpus.named = &named;
  size_t weighted = 0, mapped = 0;
  for (const std::string& entry : entries) {
    auto [name, weight] = parse_weighted_name(entry);
    Source source{.name = std::move(name), .weight = weight, .shards = {}, .text = {}};
    source.shards = open_shard_set(source.name);
    weighted += source.weight ? 1 : 0;
    const bool is_tokens = source.is_tokens();
    mapped += is_tokens ? 1 : 0;
    if (is_tokens) take_once(source.shards, named);
    if (!is_tokens || !is_repeated(source, notes)) sources.push_back(std::move(source));
  }
  if (weighted > 0 && weighted < sources.size())
    fail_usage("data: {} of {} sources have a weight; set a weight for all sources (NAME=WEIGHT) or for none",
               weighted, sources.size());
  if (weighted == 0 && mapped == 0) {
    Corpus text = load_named_corpus(entries, options, story, floor);
    sources.clear();
    sources.push_back({.name = entries.front(), .weight = {}, .shards = {}, .text = std::move(text)});
    return sources;
  }
  std::optional<double> ignored;  // the entropy of a mixture is unknown
  for (Source& source : sources) {
    if (!source.is_tokens()) source.text = load_named_corpus({source.name}, options, story, ignored);
  }
  std::erase_if(sources, [&](const Source& source) { return is_repeated(source, notes); });
  return sources;
}

// Returns the files of all sources. The built-in corpus has no files.
std::vector<std::string> files_of(const std::vector<Source>& sources) {
  std::vector<std::string> files;
  for (const Source& source : sources) {
    for (const TokenShard& shard : source.shards.shards)
      files.push_back(shard.name());
    if (tales_bytes(source.name) == 0)
      files.insert(files.end(), source.text.files.begin(), source.text.files.end());
  }
  return files;
}

// Returns a line that names the files used for both training and validation, or "" if there are none.
std::string note_common(const std::vector<Source>& train, const std::vector<Source>& val) {
  NamedFiles named;
  for (const std::string& file : files_of(train))
    named.add(file);
  std::vector<std::string> common = files_of(val);
  std::erase_if(common, [&](const std::string& file) { return named.add(file); });
  if (common.empty()) return "";
  return fmt::format(
      "note: {} is used for both training and validation, so the validation loss does not predict the loss "
      "on new text\n",
      format_list(common, 1));
}

// Loads the tokenizer that the config or the model folder specifies. Returns null for "char", whose
// vocabulary depends on the text.
std::unique_ptr<Tokenizer> find_tokenizer(const TrainConfig& config, const std::string& folder) {
  if (folder.ends_with(".gguf")) {
    if (const auto vocab = gguf_vocab(GgufFile(folder))) return tokenizer_of(*vocab, folder);
  }
  if (!folder.empty() && has_tokenizer(folder)) {
    const std::string model = folder + "/config.json";
    return path_exists(model) ? load_model_tokenizer(folder, read_model_config(model).vocab_size)
                              : load_tokenizer(folder);
  }
  if (config.tokenizer.ends_with(".gguf")) return gguf_tokenizer(config.tokenizer);
  if (config.tokenizer == "char") return nullptr;
  return open_tokenizer(config.tokenizer, {});
}

std::unique_ptr<Tokenizer> char_tokenizer(const std::vector<Source>& train, const std::vector<Source>& val) {
  std::vector<const Corpus*> corpora;
  for (const auto* sources : {&train, &val}) {
    for (const Source& source : *sources) {
      if (!source.text.text.empty()) corpora.push_back(&source.text);
    }
  }
  if (corpora.empty())
    fail_usage(
        "`tokenizer` char: token shards contain no characters; set it to the tokenizer that encoded the "
        "shards");
  return open_tokenizer("char", corpora);
}

const TokenData& add_tokens(const Source& source, RunData& data) {
  data.tokens.push_back(std::make_unique<TokenData>(source.is_tokens()
                                                        ? map_shards(source.shards.shards, *data.tokenizer)
                                                        : encode_corpus(source.text, *data.tokenizer)));
  if (!source.is_tokens()) data.texts.push_back(data.tokens.back().get());
  return *data.tokens.back();
}

CheckedBytes check_of(const ShardSet& set, size_t i) {
  const TokenShard& shard = set.shards[i];
  return {shard.name(), shard.ids_offset(), shard.ids().size(), set.checksums[i], shard.stamp()};
}

// Adds the checksums of the shards that contain ids after the first `held_in` ids.
void add_val_checks(const ShardSet& set, int64_t held_in, RunData& data) {
  int64_t end = 0;
  for (size_t i = 0; i < set.shards.size(); ++i) {
    end += set.shards[i].info().count;
    if (end > held_in) data.val_checksums.push_back(check_of(set, i));
  }
}

// Concatenates all parts. A single part is returned without a copy.
TokenSpan joined(std::span<const TokenSpan> parts, RunData& data) {
  if (parts.size() == 1) return parts[0];
  data.tokens.push_back(std::make_unique<TokenData>(*data.tokenizer));
  for (const TokenSpan& part : parts)
    data.tokens.back()->append(part);
  return TokenSpan(*data.tokens.back());
}

// Adds the notes and the checksums of a source to `data`.
void add_facts(const Source& source, const Tokenizer& tokenizer, RunData& data) {
  data.notes += source.notes();
  const ShardSet& set = source.shards;
  const int64_t unknown =
      std::ranges::count_if(set.checksums, [](const auto& checksum) { return !checksum; });
  if (unknown > 0)
    data.notes +=
        fmt::format("{}: no checksums: shard numbers, sizes and headers are checked, but token ids are not\n",
                    source.name);
  for (size_t i = 0; i < set.shards.size(); ++i)
    data.checksums.push_back(check_of(set, i));
  const int64_t rows =
      std::ranges::count_if(source.text.documents, [](const Document& d) { return d.line > 0; });
  const int32_t between = usual_document_token(tokenizer);
  if (rows > 0) {
    data.notes += fmt::format(
        "{} of JSON lines, {}\n", format_amount(rows, "row"),
        between < 0 ? "without a separator, because the tokenizer has no <|endoftext|>"
                    : "each after the token " + printable_text(tokenizer.token_bytes(between), 40));
  }
}

// If a text consists of several files, returns a line that says where the held-out text starts. Otherwise
// returns "".
std::string note_held_out(const Corpus& text, const TokenSpan& val) {
  if (text.files.size() < 2 || val.size() == 0) return "";
  const int64_t begin = std::max<int64_t>(text.bytes() - val.text_bytes(), 0);
  const auto first =
      std::ranges::find_if(text.documents, [&](const Document& d) { return d.offset + d.bytes > begin; });
  // The held-out tokens have no text, such as an end-of-document token.
  if (first == text.documents.end()) return "";
  return fmt::format(
      "note: the held-out text is the end of the concatenated files: {} bytes, starting at byte {} of {}\n",
      format_thousands(text.bytes() - begin), format_thousands(begin - first->offset), text.name(*first));
}

// Encodes all sources and splits off the held-out text.
void add_sources(const std::vector<Source>& sources, double val_fraction, RunData& data) {
  std::vector<TokenSpan> train, val;
  for (const Source& source : sources) {
    const TokenSplit split = split_tokens(add_tokens(source, data), val_fraction);
    add_val_checks(source.shards, split.train.size(), data);
    data.notes += note_held_out(source.text, split.val);
    train.push_back(split.train);
    val.push_back(split.val);
    if (source.weight) data.sources.push_back({split.train, *source.weight});
  }
  data.train = joined(train, data);
  data.val = joined(val, data);
  if (data.sources.empty()) data.sources = {{data.train, 1}};
}

// Reports unknown tokens in the texts that this run encoded. For shards, `gpt data pack` reports unknown
// tokens.
std::string note_unknown_tokens(const RunData& data) {
  UnknownTokens unknown(*data.tokenizer);
  for (const TokenData* text : data.texts)
    unknown.add(TokenSpan(*text));
  return unknown.note();
}

std::string preview_sources(const std::vector<Source>& sources, const RunData& data) {
  if (sources.size() == 1 && !sources[0].is_tokens()) return preview_corpus(sources[0].text);
  std::string text;
  for (size_t i = 0; i < sources.size(); ++i) {
    text += fmt::format(
        "{}: {}{}{}\n", sources[i].name, format_amount(data.tokens[i]->size(), "token"),
        sources[i].is_tokens() ? " in " + format_amount(std::ssize(sources[i].shards.shards), "shard") : "",
        sources[i].weight ? fmt::format(", weight {}", *sources[i].weight) : "");
  }
  return text;
}

// Returns the token that ends a document. Throws invalid_argument if the token does not occur near the start
// of the text, because every window would then silently be a single document.
int32_t document_end(const Tokenizer& tokenizer, const TokenSpan& text) {
  constexpr int64_t kLookedAt = int64_t{1} << 24;
  const int32_t end = usual_document_token(tokenizer);
  if (end < 0) {
    fail_key("pack_documents",
             "the tokenizer has no end-of-document token (<|endoftext|>, <|bos|> "
             "or <|begin_of_text|>)");
  }
  std::vector<int32_t> ids(static_cast<size_t>(std::min(kLookedAt, text.size())));
  text.copy(0, std::ssize(ids), ids.data());
  if (std::ranges::find(ids, end) == ids.end()) {
    fail_key("pack_documents",
             "none of the first {} tokens is the end-of-document token {}; use "
             "JSON lines, or shards of gpt data pack, which have this token between documents",
             ids.size(), printable_text(tokenizer.token_bytes(end), 40));
  }
  return end;
}

}  // namespace

BatchLoader loader_of(const RunData& data, const TrainConfig& config, int64_t n_ctx) {
  return {data.sources, n_ctx, static_cast<uint64_t>(config.seed),
          config.sampling == SamplingKind::epoch ? Sampling::epoch : Sampling::random};
}

TrainStep::FillBatch batch_of(const BatchLoader& loader, const TrainConfig& c, int64_t step,
                              int32_t document_end) {
  return [&loader, step, batch_size = c.batch_size, document_end](int64_t first, int64_t rows,
                                                                  const TrainStep::Samples& s) {
    loader.fill(step, first, rows, batch_size, s.ids, s.targets);
    if (document_end < 0) return;
    const auto n = static_cast<size_t>(rows * loader.n_ctx());
    PackedDocuments::mark(document_end, {s.ids, n}, {s.targets, n}, {s.starts, n});
  };
}

void require_data_named() {
  fail_parameter("data", "is missing; set it to text files, folders, token shards or tales");
}

bool is_tales(const std::string& name) {
  return tales_bytes(name) > 0;
}

int64_t vocabulary_size(int64_t asked, const Tokenizer& tokenizer) {
  const int64_t tokens = tokenizer.vocab_size();
  if (asked != 0 && asked < tokens)
    fail_parameter("vocab_size", "expected at least {}, the vocabulary size of the tokenizer, found {}",
                   tokens, asked);
  return asked == 0 ? tokens : asked;
}

std::string source_name(const std::string& entry) {
  return parse_weighted_name(entry).name;
}

std::vector<std::string> source_paths(const TrainConfig& config) {
  std::vector<std::string> paths;
  for (const auto* entries : {&config.data, &config.val_data}) {
    for (const std::string& entry : *entries) {
      if (!is_tales(source_name(entry))) paths.push_back(source_name(entry));
    }
  }
  return paths;
}

std::string source_identity(const std::string& entry, int64_t seed) {
  const std::string name = source_name(entry);
  if (const int64_t bytes = tales_bytes(name); bytes > 0) return fmt::format("tales:{}:{}", bytes, seed);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(name, error);
  return error ? name : path.string();
}

void name_document_token(ModelConfig& config, const RunData& data) {
  const int32_t token = usual_document_token(*data.tokenizer);
  if (token < 0 || !config.eos_token_ids.empty()) return;
  config.eos_token_ids = {token};
  const bool in_front = data.document_end < 0 && data.train[0] == token;
  if (config.bos_token_id < 0 && in_front) config.bos_token_id = token;
}

RunData load_run_data(const TrainConfig& config, int64_t n_ctx, const std::string& tokenizer_folder,
                      std::optional<std::string> text) {
  if (config.data.empty() && !text) require_data_named();
  RunData data;
  int64_t story = 0;
  std::optional<double> val_floor;
  data.tokenizer = find_tokenizer(config, tokenizer_folder);
  const SourceOptions options{.seed = static_cast<uint64_t>(config.seed),
                              .corpus = {.any_bytes = data.tokenizer && data.tokenizer->kind() == "byte",
                                         .filter = {config.include, config.exclude},
                                         .field = config.field}};
  std::vector<Source> train;
  if (text) {
    train.push_back(
        {.name = "text", .weight = {}, .shards = {}, .text = corpus_from_text("text", *std::move(text))});
  } else {
    train = find_sources(config.data, options, story, data.floor, data.notes);
  }
  std::vector<Source> val;
  if (!config.val_data.empty()) val = find_sources(config.val_data, options, story, val_floor, data.notes);
  const std::string common = note_common(train, val);
  data.notes += common;
  if (data.tokenizer == nullptr) data.tokenizer = char_tokenizer(train, val);
  for (const auto* sources : {&train, &val}) {
    for (const Source& source : *sources)
      add_facts(source, *data.tokenizer, data);
  }
  add_sources(train, val.empty() ? config.val_fraction : 0, data);
  data.preview = preview_sources(train, data);
  if (std::ranges::all_of(train, [](const Source& source) { return !source.is_tokens(); })) {
    for (const Source& source : train)
      data.documents += std::ssize(source.text.documents);
  }
  if (!val.empty()) {
    std::vector<TokenSpan> parts;
    for (const Source& source : val) {
      parts.emplace_back(add_tokens(source, data));
      add_val_checks(source.shards, 0, data);
    }
    data.val = joined(parts, data);
    data.floor = val_floor;
  }
  data.notes += note_unknown_tokens(data);
  require_context(data.train, n_ctx, n_ctx == 1 ? "the text" : "the training text");
  if (config.pack_documents) data.document_end = document_end(*data.tokenizer, data.train);
  if (config.eval_every > 0 && data.val.size() > 0) require_context(data.val, n_ctx, "the validation text");
  // The entropy floor is known per byte and is converted to nats per token.
  if (data.floor && data.tokenizer->vocab_size() > 0 && data.train.text_bytes() != data.train.size()) {
    *data.floor *= static_cast<double>(data.train.text_bytes()) / static_cast<double>(data.train.size());
  }
  if (common.empty() && config.eval_every > 0) data.notes += note_shared_samples(data.train, data.val);
  data.preview += preview_split({data.train, data.val}, *data.tokenizer);
  return data;
}

}  // namespace gpt

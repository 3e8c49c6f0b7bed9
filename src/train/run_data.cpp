#include "train/run_data.h"

#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "convert/gguf_vocab.h"
#include "data/preview.h"
#include "data/tales.h"

namespace gpt {
namespace {

constexpr int64_t kTalesBytes = int64_t{4} << 20;

// "tales" or "tales:BYTES"; 0 when the name is something else.
int64_t tales_bytes(const std::string& name) {
  if (name == "tales") return kTalesBytes;
  const std::string prefix = "tales:";
  if (name.rfind(prefix, 0) != 0) return 0;
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), bytes);
  if (error != std::errc() || end != name.data() + name.size() || bytes < 1) {
    fail_usage("data \"{}\": expected tales:BYTES with a positive number", name);
  }
  return bytes;
}

// One entry of the config key data.
struct Source {
  std::string name;
  std::optional<double> weight;
  std::vector<std::string> shards;  // if it is tokens already
  Corpus text;                      // else
};

// "NAME=WEIGHT", unless there is a file of that very name.
Source parse_source(const std::string& entry) {
  const size_t equals = entry.rfind('=');
  if (equals == std::string::npos || equals == 0 || std::filesystem::exists(entry))
    return {entry, {}, {}, {}};
  const std::string number = entry.substr(equals + 1);
  double weight = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
  if (error != std::errc() || end != number.data() + number.size() || !(weight > 0 && weight < 1e12))
    fail_usage("data \"{}\": expected NAME=WEIGHT with a positive number", entry);
  return {entry.substr(0, equals), weight, {}, {}};
}

// The sources of a run: text without weights is one of them.
std::vector<Source> find_sources(const std::vector<std::string>& entries, uint64_t seed, int64_t& story,
                                 std::optional<double>& floor) {
  std::vector<Source> sources;
  size_t weighted = 0, mapped = 0;
  for (const std::string& entry : entries) {
    Source source = parse_source(entry);
    source.shards = find_token_shards(source.name);
    weighted += source.weight ? 1 : 0;
    mapped += source.shards.empty() ? 0 : 1;
    sources.push_back(std::move(source));
  }
  if (weighted > 0 && weighted < sources.size())
    fail_usage("data: {} of {} sources have a weight; give one to all (NAME=WEIGHT) or to none", weighted,
               sources.size());
  if (weighted == 0 && mapped == 0) {
    Corpus text = load_named_corpus(entries, seed, story, floor);
    sources.clear();
    sources.push_back({entries.front(), {}, {}, std::move(text)});
    return sources;
  }
  std::optional<double> ignored;  // a mixture has no known floor
  for (Source& source : sources) {
    if (source.shards.empty()) source.text = load_named_corpus({source.name}, seed, story, ignored);
  }
  return sources;
}

std::unique_ptr<Tokenizer> choose_tokenizer(const TrainConfig& config, const std::string& folder,
                                            const std::vector<Source>& train,
                                            const std::vector<Source>& val) {
  if (folder.ends_with(".gguf")) {
    if (const auto vocab = gguf_vocab(GgufFile(folder))) return tokenizer_of(*vocab, folder);
  }
  if (!folder.empty() && has_tokenizer(folder)) return load_tokenizer(folder);
  if (config.tokenizer.ends_with(".gguf")) return gguf_tokenizer(config.tokenizer);
  std::vector<const Corpus*> corpora;
  for (const auto* sources : {&train, &val}) {
    for (const Source& source : *sources) {
      if (!source.text.text.empty()) corpora.push_back(&source.text);
    }
  }
  if (config.tokenizer == "char" && corpora.empty())
    fail_usage(
        "--tokenizer char: token shards have no characters; name the tokenizer that they were made with");
  return open_tokenizer(config.tokenizer, corpora);
}

std::unique_ptr<TokenData> encode(const Source& source, const Tokenizer& tokenizer) {
  return std::make_unique<TokenData>(source.shards.empty() ? encode_corpus(source.text, tokenizer)
                                                           : map_shards(source.shards, tokenizer));
}

// All parts, one after the other; a single one as it is.
TokenSpan joined(std::span<const TokenSpan> parts, RunData& data) {
  if (parts.size() == 1) return parts[0];
  data.tokens.push_back(std::make_unique<TokenData>(*data.tokenizer));
  for (const TokenSpan& part : parts)
    data.tokens.back()->append(part);
  return TokenSpan(*data.tokens.back());
}

// Encodes and splits the sources.
void add_sources(const std::vector<Source>& sources, double val_fraction, RunData& data) {
  std::vector<TokenSpan> train, val;
  for (const Source& source : sources) {
    data.tokens.push_back(encode(source, *data.tokenizer));
    const TokenSplit split = split_tokens(*data.tokens.back(), val_fraction);
    train.push_back(split.train);
    val.push_back(split.val);
    if (source.weight) data.sources.push_back({split.train, *source.weight});
  }
  data.train = joined(train, data);
  data.val = joined(val, data);
  if (data.sources.empty()) data.sources = {{data.train, 1}};
}

std::string preview_sources(const std::vector<Source>& sources, const RunData& data) {
  if (sources.size() == 1 && sources[0].shards.empty()) return preview_corpus(sources[0].text);
  std::string text;
  for (size_t i = 0; i < sources.size(); ++i) {
    text +=
        fmt::format("{}: {} tokens{}{}\n", sources[i].name, data.tokens[i]->size(),
                    sources[i].shards.empty() ? "" : fmt::format(" in {} shards", sources[i].shards.size()),
                    sources[i].weight ? fmt::format(", weight {}", *sources[i].weight) : "");
  }
  return text;
}

}  // namespace

std::string source_name(const std::string& entry) {
  return parse_source(entry).name;
}

std::string source_identity(const std::string& entry, int64_t seed) {
  const std::string name = source_name(entry);
  if (const int64_t bytes = tales_bytes(name); bytes > 0) return fmt::format("tales:{}:{}", bytes, seed);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(name, error);
  return error ? name : path.string();
}

Corpus load_named_corpus(const std::vector<std::string>& names, uint64_t seed, int64_t& first_story,
                         std::optional<double>& floor) {
  if (names.size() != 1 || tales_bytes(names[0]) == 0) return load_corpus(names);
  TalesText tales = generate_tales(tales_bytes(names[0]), seed, first_story);
  first_story = tales.next_story;
  floor = tales_entropy_per_byte();
  return corpus_from_text("tales", std::move(tales.text));
}

RunData load_run_data(const TrainConfig& config, int64_t n_ctx, const std::string& tokenizer_folder) {
  if (config.data.empty())
    fail_usage("no data: give --data with text files, folders or token shards, or --data tales");
  RunData data;
  int64_t story = 0;
  std::optional<double> val_floor;
  const auto seed = static_cast<uint64_t>(config.seed);
  const std::vector<Source> train = find_sources(config.data, seed, story, data.floor);
  std::vector<Source> val;
  if (!config.val_data.empty()) val = find_sources(config.val_data, seed, story, val_floor);
  data.tokenizer = choose_tokenizer(config, tokenizer_folder, train, val);
  add_sources(train, val.empty() ? config.val_fraction : 0, data);
  data.preview = preview_sources(train, data);
  if (std::all_of(train.begin(), train.end(), [](const Source& source) { return source.shards.empty(); })) {
    for (const Source& source : train)
      data.documents += std::ssize(source.text.documents);
  }
  if (!val.empty()) {
    std::vector<TokenSpan> parts;
    for (const Source& source : val) {
      data.tokens.push_back(encode(source, *data.tokenizer));
      parts.emplace_back(*data.tokens.back());
    }
    data.val = joined(parts, data);
    data.floor = val_floor;
  }
  require_context(data.train, n_ctx, "the training text");
  if (config.eval_every > 0 && data.val.size() > 0) require_context(data.val, n_ctx, "the validation text");
  // The floor counts bytes; a token of another size has another one.
  if (data.floor && data.tokenizer->vocab_size() > 0 && data.train.text_bytes() != data.train.size()) {
    *data.floor *= static_cast<double>(data.train.text_bytes()) / static_cast<double>(data.train.size());
  }
  data.preview += preview_split({data.train, data.val}, *data.tokenizer);
  return data;
}

}  // namespace gpt

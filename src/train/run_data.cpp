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

std::unique_ptr<Tokenizer> choose_tokenizer(const TrainConfig& config, const std::string& folder,
                                            const Corpus& train, const Corpus& val) {
  if (folder.ends_with(".gguf")) {
    if (const auto vocab = gguf_vocab(GgufFile(folder))) return tokenizer_of(*vocab, folder);
  }
  if (!folder.empty() && has_tokenizer(folder)) return load_tokenizer(folder);
  const Corpus* corpora[] = {&train, &val};
  return open_tokenizer(config.tokenizer, std::span(corpora, val.text.empty() ? 1 : 2));
}

}  // namespace

Corpus load_named_corpus(const std::vector<std::string>& names, uint64_t seed, int64_t& first_story,
                         std::optional<double>& floor) {
  if (names.size() != 1 || tales_bytes(names[0]) == 0) return load_corpus(names);
  TalesText tales = generate_tales(tales_bytes(names[0]), seed, first_story);
  first_story = tales.next_story;
  floor = tales_entropy_per_byte();
  return corpus_from_text("tales", std::move(tales.text));
}

RunData load_run_data(const TrainConfig& config, int64_t n_ctx, const std::string& tokenizer_folder) {
  if (config.data.empty()) fail_usage("no data: give --data with text files or folders, or --data tales");
  RunData data;
  int64_t story = 0;
  std::optional<double> val_floor;
  const auto seed = static_cast<uint64_t>(config.seed);
  const Corpus train = load_named_corpus(config.data, seed, story, data.floor);
  Corpus val;
  if (!config.val_data.empty()) val = load_named_corpus(config.val_data, seed, story, val_floor);
  data.tokenizer = choose_tokenizer(config, tokenizer_folder, train, val);
  data.train_tokens = std::make_unique<TokenData>(encode_corpus(train, *data.tokenizer));
  TokenSplit split;
  if (val.text.empty()) {
    split = split_tokens(*data.train_tokens, config.val_fraction);
  } else {
    data.val_tokens = std::make_unique<TokenData>(encode_corpus(val, *data.tokenizer));
    split = {TokenSpan(*data.train_tokens), TokenSpan(*data.val_tokens)};
    data.floor = val_floor;
  }
  data.train = split.train;
  data.val = split.val;
  require_context(data.train, n_ctx, "the training text");
  if (config.eval_every > 0 && data.val.size() > 0) require_context(data.val, n_ctx, "the validation text");
  // The floor counts bytes; a token of another size has another one.
  if (data.floor && data.tokenizer->vocab_size() > 0 && data.train.text_bytes() != data.train.size()) {
    *data.floor *= static_cast<double>(data.train.text_bytes()) / static_cast<double>(data.train.size());
  }
  data.preview = preview_corpus(train) + preview_split(split, *data.tokenizer);
  return data;
}

}  // namespace gpt

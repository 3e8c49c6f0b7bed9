#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/corpus.h"
#include "data/loader.h"
#include "data/shard_check.h"
#include "data/token_data.h"
#include "train/train_config.h"
#include "train/train_step.h"

namespace gpt {

// Stores the encoded and split texts of a run.
struct RunData {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::unique_ptr<TokenData>> tokens;  // owns the memory of the spans below
  std::vector<WeightedTokens> sources;  // training sources; a single source, unless the config has weights
  TokenSpan train, val;                 // texts of all sources; val may be empty
  std::optional<double> floor;          // entropy of the text in nats per token, if known
  int32_t document_end = -1;            // token that ends a document, with pack_documents; otherwise -1
  int64_t documents = 0;                // number of training documents; 0: unknown
  std::vector<const TokenData*> texts;  // elements of `tokens` that were encoded by this run
  // Checksums of all shards. The token ids of a shard are only verified if the checksum of the shard is
  // known.
  std::vector<CheckedBytes> checksums;
  std::vector<CheckedBytes> val_checksums;  // checksums of the shards that overlap `val`
  std::string notes;    // lines about files that folders contain or that are skipped; often empty
  std::string preview;  // the start of the text, for the terminal

  bool has_val() const { return val.size() > 1; }
};

// Loads the data that the config names: text files and folders, "tales", and memory-mapped token shards. An
// entry NAME=WEIGHT sets the fraction of samples that come from the source NAME. If one source has a weight,
// all sources need a weight. Unless the config names validation data, the end of every source is held out.
// `tokenizer_folder` is a model folder whose tokenizer is used, or "". If `text` is given, it replaces the
// data that the config names. Throws Error if the text is empty or shorter than a context, or if the
// vocabulary of a shard differs from the tokenizer's vocabulary.
RunData load_run_data(const TrainConfig& config, int64_t n_ctx, const std::string& tokenizer_folder,
                      std::optional<std::string> text = {});

// Creates the loader for the batches of a run. `data` must outlive the loader.
BatchLoader loader_of(const RunData& data, const TrainConfig& config, int64_t n_ctx);

// Returns the function that fills the batch of a step, counted from 0. `loader` must outlive the returned
// function. `document_end` is the token that ends a document, or -1 to ignore document boundaries.
TrainStep::FillBatch batch_of(const BatchLoader& loader, const TrainConfig& config, int64_t step,
                              int32_t document_end);

// Sets the EOS token of the config to the tokenizer's document token, unless the config has an EOS token. If
// the training text starts with this token and documents are not packed, also sets the BOS token.
void name_document_token(ModelConfig& config, const RunData& data);

// Throws invalid_argument with the message that no data is given.
[[noreturn]] void require_data_named();
// Returns true if the name is the built-in corpus, "tales" or "tales:BYTES". Throws invalid_argument if BYTES
// is invalid.
bool is_tales(const std::string& name);
// Returns the vocabulary size of the model: `asked`, or the size of the tokenizer's vocabulary if `asked` is
// 0. Throws invalid_argument if the tokenizer's vocabulary is larger than `asked`.
int64_t vocabulary_size(int64_t asked, const Tokenizer& tokenizer);

// Returns an entry of the config key "data" without its weight.
std::string source_name(const std::string& entry);
// Returns the entries of `data` and `val_data` that are paths or patterns and not "tales".
std::vector<std::string> source_paths(const TrainConfig& config);
// Returns a unique name for a source: its absolute path, or "tales:BYTES:SEED".
std::string source_identity(const std::string& entry, int64_t seed);

}  // namespace gpt

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

// The texts of a run, encoded and split.
struct RunData {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::unique_ptr<TokenData>> tokens;  // owns the memory of the spans below
  std::vector<WeightedTokens> sources;             // training sources; one, unless the config has weights
  TokenSpan train, val;                            // of all sources; val may be empty
  std::optional<double> floor;                     // entropy of the text in nats per token, if known
  int32_t document_end = -1;                       // with pack_documents: the token that ends a document
  int64_t documents = 0;                           // number of training documents; 0: unknown
  std::vector<const TokenData*> texts;             // elements of `tokens` that were encoded here
  std::vector<CheckedBytes> checksums;             // of the shards, with ids if known
  std::vector<CheckedBytes> val_checksums;         // of the shards that `val` overlaps
  std::string notes;    // lines about files that folders contribute or that are skipped; often empty
  std::string preview;  // the start of the text, for the terminal

  bool has_val() const { return val.size() > 1; }
};

// Loads the data that the config names: text files and folders, "tales", and memory-mapped token shards.
// NAME=WEIGHT gives a source its share of the samples; then all sources need a weight. Holds out the end of
// every source, unless the config names validation data. tokenizer_folder: a model whose tokenizer is used,
// or
// "". text: replaces the data that the config names. Throws Error if the text is empty or shorter than a
// context, or if shards have a different vocabulary.
RunData load_run_data(const TrainConfig& config, int64_t n_ctx, const std::string& tokenizer_folder,
                      std::optional<std::string> text = {});

// Returns the loader of a run's batches. `data` must outlive it.
BatchLoader loader_of(const RunData& data, const TrainConfig& config, int64_t n_ctx);

// Returns the function that writes the batch of a step, counted from 0. `loader` must outlive it.
// document_end: the token that ends a document, or -1 to ignore document boundaries.
TrainStep::FillBatch batch_of(const BatchLoader& loader, const TrainConfig& config, int64_t step,
                              int32_t document_end);

// Sets the EOS token of the config to the tokenizer's document token, unless the config has an EOS token.
// Also sets the BOS token to it if the training text starts with it.
void name_document_token(ModelConfig& config, const RunData& data);

// Throws invalid_argument with the message that no data is named.
[[noreturn]] void require_data_named();
// Returns whether a name is the built-in corpus: tales or tales:BYTES. Throws invalid_argument for invalid
// BYTES.
bool is_tales(const std::string& name);
// Returns the vocabulary size of the model: `asked`, or the size of the tokenizer if `asked` is 0. Throws
// invalid_argument if the tokenizer is larger.
int64_t vocabulary_size(int64_t asked, const Tokenizer& tokenizer);

// Returns an entry of the config key "data" without its weight.
std::string source_name(const std::string& entry);
// Returns the entries of data and val_data that are paths or patterns, not "tales".
std::vector<std::string> source_paths(const TrainConfig& config);
// Returns a unique name of a source: its absolute path, or "tales:BYTES:SEED".
std::string source_identity(const std::string& entry, int64_t seed);

}  // namespace gpt

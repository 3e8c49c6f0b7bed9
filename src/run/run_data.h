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
  std::vector<std::unique_ptr<TokenData>> tokens;  // all that the spans below are made of
  std::vector<WeightedTokens> sources;      // what training draws from; one, unless the config has weights
  TokenSpan train, val;                     // of all sources; val may be empty
  std::optional<double> floor;              // entropy of the text in nats per token, where it is known
  int32_t document_end = -1;                // with pack_documents: the token that ends a document
  int64_t documents = 0;                    // of the training text; 0: not known
  std::vector<const TokenData*> texts;      // those of `tokens` that were encoded here
  std::vector<CheckedBytes> checksums;      // of the shards, ids where they are known
  std::vector<CheckedBytes> val_checksums;  // of those that `val` reaches into
  std::string notes;    // for people: what folders give and what is passed over; lines, mostly none
  std::string preview;  // for people

  bool has_val() const { return val.size() > 1; }
};

// Loads what the config names: text files and folders, "tales", and token shards, which are mapped;
// NAME=WEIGHT gives a source its share of the samples, and then all need one. Of every source the end is held
// out, unless the config names other text for that. tokenizer_folder: a model whose tokenizer is to be used,
// or "". Throws Error when the text is empty or shorter than a context, or when shards are of another
// vocabulary.
// text: in place of the data that the config names.
RunData load_run_data(const TrainConfig& config, int64_t n_ctx, const std::string& tokenizer_folder,
                      std::optional<std::string> text = {});

// What draws the batches of a run from its sources; `data` must outlive it.
BatchLoader loader_of(const RunData& data, const TrainConfig& config, int64_t n_ctx);

// Returns what writes the batch of a step, counted from 0. `loader` must outlive it. document_end: the token
// that ends a document, or -1 if documents are not told apart.
TrainStep::FillBatch batch_of(const BatchLoader& loader, const TrainConfig& config, int64_t step,
                              int32_t document_end);

// What stands in front of documents also ends the one before: there generation stops, unless the config says
// where. A text begins with it where the run's texts do.
void name_document_token(ModelConfig& config, const RunData& data);

// Throws invalid_argument: no text is named.
[[noreturn]] void require_data_named();
// Whether a name stands for the built-in corpus: tales or tales:BYTES. Throws invalid_argument for other
// BYTES.
bool is_tales(const std::string& name);
// Ids that a model has room for: `asked`, or the tokenizer's where that is 0. Throws invalid_argument where
// the tokenizer has more.
int64_t vocabulary_size(int64_t asked, const Tokenizer& tokenizer);

// An entry of the config key data without its weight.
std::string source_name(const std::string& entry);
// Those of data and val_data that are paths or patterns, and not tales.
std::vector<std::string> source_paths(const TrainConfig& config);
// What tells one source from another: its path from the root, or "tales:BYTES:SEED".
std::string source_identity(const std::string& entry, int64_t seed);

}  // namespace gpt

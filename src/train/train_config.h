#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "model/config.h"

namespace gpt {

class Problems;

enum class ScheduleKind : uint8_t { cosine, linear, constant, wsd };
enum class SamplingKind : uint8_t { random, epoch };
enum class TrainDType : uint8_t { fp32, bf16, fp16 };
enum class DeviceKind : uint8_t { cpu };
enum class Reduce : uint8_t { exact, fast, fast_bf16 };
enum class MuonAdjust : uint8_t { original, match_rms_adamw, spectral_unclamped };

// Stores all settings of a training run except the settings of the model. The field names are the config
// keys.
struct TrainConfig {
  // Files, folders, token shards, "tales" or "tales:BYTES". NAME=WEIGHT mixes several texts by weight.
  std::vector<std::string> data;
  std::vector<std::string> val_data;          // empty: split the validation text off `data`
  std::vector<std::string> include, exclude;  // file patterns for folders (FolderFilter)
  std::string field = "text";                 // name of the text field in JSON lines
  double val_fraction = 0.1;
  std::string tokenizer = "byte";
  SamplingKind sampling = SamplingKind::random;
  bool pack_documents = false;
  int64_t seed = 1;

  int64_t steps = 1000;
  int64_t stop_after = 0;  // 0: run to the end
  int64_t batch_size = 16;
  int64_t micro_batch = 0;  // 0: batch_size, or the samples of a shard if that is less
  int64_t grad_shards = 0;  // 0: one shard per rank
  Reduce reduce = Reduce::exact;
  int64_t zero = 0;
  std::string optimizer = "adamw";
  double lr = 3e-4;
  double min_lr = -1;  // -1: lr / 10
  int64_t warmup = 100;
  ScheduleKind schedule = ScheduleKind::cosine;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double embedding_lr = -1, head_lr = -1, vector_lr = -1;  // -1: `lr`, or nanochat's learning rates
  double muon_lr = -1, muon_momentum = -1;
  MuonAdjust muon_adjust = MuonAdjust::original;
  std::vector<std::string> freeze;    // patterns of parameter names
  std::vector<std::string> lr_scale;  // PATTERN=FACTOR
  double layer_decay = 1;
  double ema = 0;          // 0: off
  double clip_norm = 1.0;  // 0: off
  double clip_value = 0;   // 0: off
  // Skip a step if its loss or gradient norm is more than this many standard deviations above the mean; 0:
  // off.
  double outlier_z = 0;
  TrainDType dtype = TrainDType::fp32;
  bool recompute = false;

  int64_t eval_every = -1, eval_batches = -1;  // -1: limit evaluation to 5 % of the run (schedule.h)
  bool eval_train = false;
  int64_t patience = 0;  // 0: off
  int64_t sample_every = 0, save_every = 500, log_every = 10;
  DeviceKind device = DeviceKind::cpu;
  int64_t threads = 0;  // 0: all CPUs

  bool operator==(const TrainConfig&) const = default;
};

template <class Config, class Visit>
// NOLINTNEXTLINE(readability-function-size): a table of definitions
void visit_data_keys(Config& c, Visit& visit) {
  visit(Key{.name = "data",
            .group = "data",
            .help = "Training data: text files, folders, token shards, or tales or tales:BYTES for the "
                    "built-in corpus. a.bin=0.7 b.txt=0.3 mixes sources by weight",
            .aliases = "input|files|-d|dataset|train_file",
            .value = "PATH ...",
            .kind = ValueKind::path,
            .is_common = true},
        c.data);
  visit(Key{.name = "val_data",
            .group = "data",
            .help = "Validation data",
            .unset = "the end of the training data",
            .aliases = "validation_file",
            .value = "PATH ...",
            .kind = ValueKind::path},
        c.val_data);
  visit(Key{.name = "include",
            .group = "data",
            .help = "Patterns of files to read from folders, such as '*.py'",
            .unset = "files that look like text or code",
            .value = "PATTERN"},
        c.include);
  visit(Key{.name = "exclude",
            .group = "data",
            .help = "Patterns of files and folders to skip in folders",
            .value = "PATTERN"},
        c.exclude);
  visit(Key{.name = "field",
            .group = "data",
            .help = "Name of the text field in JSON lines files",
            .value = "NAME"},
        c.field);
  visit(Key{.name = "val_fraction",
            .group = "data",
            .help = "Fraction of the training data that is held out for validation",
            .min = 0,
            .max = 0.99},
        c.val_fraction);
  visit(Key{.name = "tokenizer",
            .group = "data",
            .help = "Tokenizer: byte, char, a tokenizer.json, or a model folder",
            .choices = "byte|char",
            .aliases = "tokenizer_name",
            .kind = ValueKind::path,
            .is_common = true},
        c.tokenizer);
  visit(Key{.name = "sampling",
            .group = "data",
            .help = "Order of training windows. random: independent random positions. epoch: a new "
                    "permutation of all windows in each epoch"},
        c.sampling);
  visit(Key{.name = "pack_documents",
            .group = "data",
            .help = "Mask attention between the documents in a window. Each document ends with the "
                    "end-of-text token, and positions restart"},
        c.pack_documents);
  visit(Key{.name = "seed",
            .group = "data",
            .help = "Seed of initialization, data order and dropout",
            .min = 0,
            .max = 0x1p62,
            .aliases = "-s",
            .is_common = true},
        c.seed);
}

template <class Config, class Visit>
// NOLINTNEXTLINE(readability-function-size): a table of definitions
void visit_optimizer_keys(Config& c, Visit& visit) {
  visit(Key{.name = "steps",
            .group = "training",
            .help = "Number of optimizer steps",
            .min = 1,
            .max = 1e12,
            .aliases = "num_iterations|max_iters|max_steps|iters|iterations|num_steps|train_steps",
            .is_common = true},
        c.steps);
  visit(Key{.name = "stop_after",
            .group = "training",
            .help = "Stop after this many steps; the run can be resumed. 0: off",
            .min = 0,
            .max = 1e12},
        c.stop_after);
  visit(Key{.name = "batch_size",
            .group = "training",
            .help = "Number of sequences per optimizer step",
            .min = 1,
            .max = 1e6,
            .aliases = "-b|batch",
            .is_common = true},
        c.batch_size);
  visit(Key{.name = "micro_batch",
            .group = "training",
            .help = "Number of sequences that are computed together",
            .unset = "batch_size",
            .min = 0,
            .max = 1e6,
            .aliases = "device_batch_size|per_device_train_batch_size"},
        c.micro_batch);
  visit(Key{.name = "grad_shards",
            .group = "training",
            .help = "Number of parts of the batch whose gradients are summed in order. Results depend on "
                    "this number, not on the number of ranks",
            .unset = "one per rank",
            .min = 0,
            .max = 1e6},
        c.grad_shards);
  visit(Key{.name = "reduce",
            .group = "training",
            .help = "Reduction of gradients between ranks. exact: in the order of grad_shards. fast: each "
                    "rank sums its samples first, so results depend on the number of ranks. fast-bf16: like "
                    "fast, with messages in bf16"},
        c.reduce);
  visit(Key{.name = "zero",
            .group = "training",
            .help = "ZeRO stage. 1 shards the optimizer state between ranks, 2 also the gradients, 3 also "
                    "the weights. Results do not change",
            .min = 0,
            .max = 3},
        c.zero);
  visit(Key{.name = "optimizer",
            .group = "training",
            .help = "Optimizer. muon: torch.optim.Muon for the matrices of the layers, AdamW for all other "
                    "parameters. muon-nanochat: the variant of nanochat",
            .aliases = "optim"},
        c.optimizer);
  visit(Key{.name = "lr",
            .group = "training",
            .help = "Peak learning rate",
            .min = 0,
            .max = 1e3,
            .is_common = true},
        c.lr);
  visit(Key{.name = "min_lr",
            .group = "training",
            .help = "Final learning rate",
            .unset = "lr / 10",
            .min = 0,
            .max = 1e3},
        c.min_lr);
  visit(Key{.name = "warmup",
            .group = "training",
            .help = "Number of linear warm-up steps",
            .min = 0,
            .max = 1e12,
            .aliases = "warmup_steps"},
        c.warmup);
  visit(Key{.name = "schedule",
            .group = "training",
            .help = "Learning rate schedule. wsd: warmup, stable, decay",
            .aliases = "lr_scheduler_type"},
        c.schedule);
  visit(Key{.name = "embedding_lr",
            .group = "training",
            .help = "Peak learning rate of the embeddings",
            .unset = "lr; muon-nanochat: 0.2 * sqrt(768 / n_embd)",
            .min = 0,
            .max = 1e3},
        c.embedding_lr);
  visit(Key{.name = "head_lr",
            .group = "training",
            .help = "Peak learning rate of the output head, also if it is tied to the embedding",
            .unset = "lr; muon-nanochat: 0.004 * sqrt(768 / n_embd)",
            .min = 0,
            .max = 1e3},
        c.head_lr);
  visit(Key{.name = "vector_lr",
            .group = "training",
            .help = "Peak learning rate of norms and biases",
            .unset = "lr; muon-nanochat: 0.005",
            .min = 0,
            .max = 1e3},
        c.vector_lr);
  visit(Key{.name = "muon_lr",
            .group = "training",
            .help = "Peak learning rate of Muon",
            .unset = "0.02; with match_rms_adamw: lr",
            .min = 0,
            .max = 1e3,
            .aliases = "matrix_lr"},
        c.muon_lr);
  visit(Key{.name = "muon_momentum",
            .group = "training",
            .help = "Momentum of Muon",
            .unset =
                "0.95; muon-nanochat: 0.97, from 0.85 in the first 400 steps, down to 0.9 in the last 65 %",
            .min = 0,
            .max = 0.999999},
        c.muon_momentum);
  visit(Key{.name = "muon_adjust",
            .group = "training",
            .help = "Adjustment of Muon's learning rate to the shape of a matrix, as in torch.optim.Muon"},
        c.muon_adjust);
  visit(Key{.name = "lr_scale",
            .group = "training",
            .help =
                "Learning rate factors of parameters by name pattern, as PATTERN=FACTOR: blocks.[0-3].*=0.5",
            .value = "PATTERN=X ..."},
        c.lr_scale);
  visit(Key{.name = "layer_decay",
            .group = "training",
            .help = "Learning rate factor per layer, counted from the head: once for the last layer, twice "
                    "for the one before it, and so on",
            .min = 0,
            .max = 1},
        c.layer_decay);
  visit(Key{.name = "freeze",
            .group = "training",
            .help = "Patterns of parameters that are not trained, such as wte.*",
            .value = "PATTERN ..."},
        c.freeze);
  visit(Key{.name = "ema",
            .group = "training",
            .help = "Decay of an exponential moving average of the weights, which is used for evaluation, "
                    "samples and best/. 0: off",
            .min = 0,
            .max = 0.9999999},
        c.ema);
  visit(Key{.name = "beta1",
            .group = "training",
            .help = "Decay of AdamW's first moment. muon-nanochat ignores beta1, beta2 and eps",
            .min = 0,
            .max = 0.999999,
            .aliases = "adam_beta1"},
        c.beta1);
  visit(Key{.name = "beta2",
            .group = "training",
            .help = "Decay of AdamW's second moment",
            .min = 0,
            .max = 0.99999999,
            .aliases = "adam_beta2"},
        c.beta2);
  visit(Key{.name = "eps",
            .group = "training",
            .help = "Epsilon of AdamW",
            .min = 0,
            .max = 1,
            .aliases = "adam_epsilon"},
        c.eps);
  visit(Key{.name = "weight_decay",
            .group = "training",
            .help = "Weight decay of tensors with two or more dimensions",
            .min = 0,
            .max = 100},
        c.weight_decay);
  visit(Key{.name = "clip_norm",
            .group = "training",
            .help = "Maximum global gradient norm. 0: off",
            .min = 0,
            .max = 1e30,
            .aliases = "max_grad_norm"},
        c.clip_norm);
  visit(Key{.name = "clip_value",
            .group = "training",
            .help = "Maximum absolute value of a gradient element. 0: off",
            .min = 0,
            .max = 1e30},
        c.clip_value);
  visit(Key{.name = "outlier_z",
            .group = "training",
            .help = "Skip steps whose loss or gradient norm is more than this many standard deviations from "
                    "the mean. 0: off",
            .min = 0,
            .max = 1e6},
        c.outlier_z);
}

// Visits all keys in the order of the documentation: visit(key, field).
template <class Config, class Visit>
// NOLINTNEXTLINE(readability-function-size): a table of definitions
void visit_train_keys(Config& c, Visit&& visit) {
  visit_data_keys(c, visit);
  visit_optimizer_keys(c, visit);
  visit(Key{.name = "dtype",
            .group = "training",
            .help = "Data type of activations and matrix products. fp16 uses loss scaling",
            .kind = ValueKind::dtype,
            .is_common = true},
        c.dtype);
  visit(Key{.name = "recompute",
            .group = "training",
            .help = "Recompute activations in the backward pass to save memory",
            .aliases = "gradient_checkpointing"},
        c.recompute);
  visit(Key{.name = "eval_every",
            .group = "intervals",
            .help = "Steps between evaluations. 0: never",
            .unset = "evaluation takes at most 5 % of the run",
            .min = 0,
            .max = 1e12,
            .aliases = "eval_interval|eval_steps"},
        c.eval_every);
  visit(Key{.name = "eval_batches",
            .group = "intervals",
            .help = "Number of batches per evaluation; every evaluation uses the same batches",
            .unset = "evaluation takes at most 5 % of the run",
            .min = 1,
            .max = 1e9,
            .aliases = "eval_iters"},
        c.eval_batches);
  visit(Key{.name = "eval_train",
            .group = "intervals",
            .help = "Also evaluate on the same number of training batches, and before the first step"},
        c.eval_train);
  visit(Key{.name = "patience",
            .group = "intervals",
            .help = "Stop after this many evaluations without a better validation loss. 0: off",
            .min = 0,
            .max = 1e12,
            .aliases = "early_stopping_patience",
            .is_common = true},
        c.patience);
  visit(Key{.name = "sample_every",
            .group = "intervals",
            .help = "Steps between generated samples. 0: never",
            .min = 0,
            .max = 1e12},
        c.sample_every);
  visit(Key{.name = "save_every",
            .group = "intervals",
            .help = "Steps between checkpoints. 0: only at the end",
            .min = 0,
            .max = 1e12,
            .aliases = "save_steps|checkpoint_every|checkpoint_interval|save_interval"},
        c.save_every);
  visit(Key{.name = "log_every",
            .group = "intervals",
            .help = "Steps between log lines. 0: never",
            .min = 0,
            .max = 1e12,
            .aliases = "log_interval|logging_steps"},
        c.log_every);
  visit(Key{.name = "device", .group = "machine", .help = "Device to compute on"}, c.device);
  visit(Key{.name = "threads",
            .group = "machine",
            .help = "Number of CPU threads",
            .unset = "all CPUs",
            .min = 0,
            .max = 1024,
            .aliases = "n_threads|num_threads",
            .is_common = true},
        c.threads);
}

DType tensor_dtype(TrainDType t);
// Returns the dtype in which gradients are sent between ranks.
DType message_dtype(Reduce reduce);

// Stores the complete configuration of a run.
struct RunConfig {
  ModelConfig model;
  TrainConfig train;
};

// Throws invalid_argument with a suggestion if `name` is not a preset.
void require_preset(const std::string& name);

// Throws invalid_argument if this build does not support the device. `where` is the flag or config key for
// the error message.
void require_device(const std::string& where, const std::string& device);

// Merges config keys from several sources: preset, file, environment and flags. Later sources override
// earlier sources. Values are JSON. Key names of other projects are translated to the names of this program.
// The key "dropout" overrides the embedding, attention and residual dropout rates that earlier sources have
// set. Within one source, the specific dropout keys override "dropout" regardless of their order.
class Settings {
 public:
  Settings();
  ~Settings();
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  void add_preset(const std::string& name);
  // Adds a file that contains a JSON object of config keys. The file may describe the shape of the model with
  // the key names of another project. Such a file must name its model family (require_family), unless a
  // preset or model was added before.
  void add_file(const std::string& path);
  void add_json(const nlohmann::json& object, const std::string& source);
  void add_model(const ModelConfig& config);  // adds all keys of a model
  // Starts a new source. The functions add_preset, add_file, add_json, add_model and add_defaults call
  // begin_source. Values from add_text belong to the current source.
  void begin_source() { ++source_; }
  // Adds the default values of a command. They only apply to keys that no other source sets.
  void add_defaults(const nlohmann::json& object);
  // Adds a value in command-line syntax: plain text for strings and lists of strings, otherwise JSON.
  void add_text(const std::string& key, const std::string& text, const std::string& source);

  // Returns true if a file, the environment or a flag has set the key.
  bool is_given(const std::string& key) const;
  // Returns true if the value of the key comes from a preset or from add_defaults.
  bool comes_from_preset(const std::string& key) const;
  // Removes the value of the key if it comes from a preset or from add_defaults.
  void forget_preset(const std::string& key);

  // Returns the merged config. Throws invalid_argument naming unknown keys (with "did you mean"), wrong types
  // and invalid values. The model's vocab_size may still be 0, because the tokenizer determines it later. A
  // warm-up that comes from a preset is limited to a quarter of the steps.
  RunConfig resolve() const;
  // Like `resolve()`, but adds errors to `problems` instead of throwing. Invalid keys keep their default
  // values.
  RunConfig resolve(Problems& problems) const;

 private:
  void set(const nlohmann::json& keys);

  std::unique_ptr<nlohmann::json> merged_;
  std::set<std::string> from_preset_;  // keys set only by a preset or by add_defaults
  std::map<std::string, int> set_by_;  // maps each key to the number of the source that set it
  int source_ = 0;                     // number of the current source
  bool has_family_ = false;            // true if a preset or a model has set the family's switches
};

// Returns "; did you mean gpt3-small, ...?" if `name` is a prefix of preset names or similar to a preset
// name. Otherwise returns "".
std::string suggest_preset(std::string_view name);

// Returns all config keys of the model and of training, in the order of the documentation.
const std::vector<KeyInfo>& config_keys();
// Returns the config key for a name in another program ("max_iters": "steps"), or "" if there is none.
std::string key_of_alias(const std::string& name);

// Fills in the derived training values and checks all values. Throws Error naming the config key.
void complete(TrainConfig& config);
// Returns the number of gradient shards of a batch. This is grad_shards if `reduce` is exact, otherwise one
// shard per rank.
int64_t shard_count(const TrainConfig& config, int processes);
// Sets grad_shards to the number of ranks if it is not set, and reduces micro_batch to a divisor of the
// samples in a shard. Throws invalid_argument if the number of shards is not a multiple of the number of
// ranks, or if the batch size is not a multiple of the number of shards.
void share_among(TrainConfig& config, int processes);

nlohmann::json run_config_json(const RunConfig& config);  // returns every key with its final value
RunConfig read_run_config(const std::string& path);       // reads a file written with run_config_json
// Formats the values of config keys with one line per group. Group names are padded to `columns` characters.
std::string describe_keys(const nlohmann::json& values, int columns);

}  // namespace gpt

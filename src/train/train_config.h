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
void visit_data_keys(Config& c, Visit& visit) {
  visit("data", c.data, "data",
        "text files, folders, token shards, or \"tales\" (\"tales:BYTES\"), the built-in corpus; a.bin=0.7 "
        "b.txt=0.3 mixes by weight");
  visit("val_data", c.val_data, "data", "validation text; without it the end of the data is held out");
  visit("include", c.include, "data",
        "files that folders give, as patterns such as '*.py' (text and code, by their names)");
  visit("exclude", c.exclude, "data", "files and folders that folders do not give, as patterns");
  visit("field", c.field, "data", "field of the text in .jsonl files");
  visit("val_fraction", c.val_fraction, "data", "part of the data that is held out");
  visit("tokenizer", c.tokenizer, "data", "byte, char, or a tokenizer.json or model folder");
  visit("sampling", c.sampling, "data",
        "random: windows from anywhere; epoch: all of them, once each, again and again");
  visit("pack_documents", c.pack_documents, "data",
        "documents in a window do not see each other: each ends with the tokenizer's end token, positions "
        "restart");
  visit("seed", c.seed, "data", "of initialisation, data order, dropout");
}

template <class Config, class Visit>
void visit_optimizer_keys(Config& c, Visit& visit) {
  visit("steps", c.steps, "training", "optimizer steps");
  visit("stop_after", c.stop_after, "training", "stop after this many steps, resumable; 0: off");
  visit("batch_size", c.batch_size, "training", "sequences per step");
  visit("micro_batch", c.micro_batch, "training", "sequences computed at once (batch_size)");
  visit("grad_shards", c.grad_shards, "training",
        "parts of a batch whose gradients are added up one after the other: the numbers depend on this, and "
        "not "
        "on how many processes share them (one for each process)");
  visit("reduce", c.reduce, "training",
        "exact: gradients are added by grad_shards; fast: each process adds up its own samples and sends "
        "them once "
        "a step, so the numbers depend on how many processes there are; fast-bf16: the same, messages "
        "rounded to "
        "bf16");
  visit("zero", c.zero, "training",
        "what processes divide among them (ZeRO): 0 nothing, 1 the optimizer's state, 2 gradients too, "
        "3 and weights; the numbers are the same");
  visit("optimizer", c.optimizer, "training",
        "adamw; muon (torch.optim.Muon for the matrices of the blocks, AdamW for the rest) or muon-nanochat");
  visit("lr", c.lr, "training", "peak learning rate");
  visit("min_lr", c.min_lr, "training", "learning rate at the end (lr / 10)");
  visit("warmup", c.warmup, "training", "steps of linear warm-up");
  visit("schedule", c.schedule, "training", "cosine, linear, constant or wsd (warmup-stable-decay)");
  visit("embedding_lr", c.embedding_lr, "training",
        "peak learning rate of embeddings (lr; muon-nanochat: 0.2, times the root of 768 / n_embd)");
  visit("head_lr", c.head_lr, "training",
        "peak learning rate of the head, and of an embedding that is the head too (lr; muon-nanochat: 0.004, "
        "times the root of 768 / n_embd)");
  visit("vector_lr", c.vector_lr, "training",
        "peak learning rate of norms and biases (lr; muon-nanochat: 0.005)");
  visit("muon_lr", c.muon_lr, "training", "Muon's peak learning rate (0.02; with match_rms_adamw lr)");
  visit("muon_momentum", c.muon_momentum, "training",
        "Muon's momentum (0.95; muon-nanochat: 0.97, from 0.85 in the first 400 steps, to 0.9 in the last 65 "
        "%)");
  visit("muon_adjust", c.muon_adjust, "training",
        "how muon's learning rate depends on a matrix's shape: original, match_rms_adamw or "
        "spectral_unclamped, as in torch.optim.Muon");
  visit("lr_scale", c.lr_scale, "training",
        "PATTERN=FACTOR: the learning rate of parameters whose names match, such as blocks.[0-3].*=0.5");
  visit("layer_decay", c.layer_decay, "training",
        "factor of the learning rate from the head down: once for the last block, once more for each further "
        "one, most for embeddings");
  visit("freeze", c.freeze, "training", "patterns of parameters that stay as they are, such as wte.*");
  visit("ema", c.ema, "training",
        "decay of an average of the weights, which is what is evaluated, sampled and kept as best; 0: off");
  visit("beta1", c.beta1, "training",
        "decay of AdamW's first moment; muon-nanochat has its own betas and eps");
  visit("beta2", c.beta2, "training", "decay of AdamW's second moment");
  visit("eps", c.eps, "training", "AdamW's epsilon");
  visit("weight_decay", c.weight_decay, "training", "on tensors of two or more dimensions");
  visit("clip_norm", c.clip_norm, "training", "largest global gradient norm; 0: off");
  visit("clip_value", c.clip_value, "training", "largest gradient element; 0: off");
  visit("outlier_z", c.outlier_z, "training",
        "skip steps whose loss or gradient norm is so many deviations off; 0: off");
}

// Visits all keys in display order.
template <class Config, class Visit>
void visit_train_keys(Config& c, Visit&& visit) {
  visit_data_keys(c, visit);
  visit_optimizer_keys(c, visit);
  visit("dtype", c.dtype, "training", "of activations and products: fp32, bf16, or fp16 with loss scaling");
  visit("recompute", c.recompute, "training", "recompute activations in the backward pass to save memory");
  visit("eval_every", c.eval_every, "rhythm",
        "steps between evaluations; 0: never (evaluation takes 5 % of the run)");
  visit("eval_batches", c.eval_batches, "rhythm", "batches per evaluation, always the same ones (likewise)");
  visit("eval_train", c.eval_train, "rhythm",
        "evaluate on as many batches of the training text too, and before the first step");
  visit("patience", c.patience, "rhythm",
        "end the run after so many evaluations without a better validation loss; 0: off");
  visit("sample_every", c.sample_every, "rhythm", "steps between samples; 0: never");
  visit("save_every", c.save_every, "rhythm", "steps between checkpoints; 0: only at the end");
  visit("log_every", c.log_every, "rhythm", "steps between log lines");
  visit("device", c.device, "machine", "cpu");
  visit("threads", c.threads, "machine", "CPU threads (all)");
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
// earlier sources. Values are JSON. The key names of other projects are translated. "dropout" overrides the
// embedding, attention and residual dropout of earlier sources. Within one source, the specific dropout keys
// override "dropout" regardless of their order.
class Settings {
 public:
  Settings();
  ~Settings();
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  void add_preset(const std::string& name);
  // Adds a file that contains a JSON object of config keys. If no preset or model was added before, a file
  // that describes the model's shape with the key names of another project must name its model family
  // (require_family).
  void add_file(const std::string& path);
  void add_json(const nlohmann::json& object, const std::string& source);
  void add_model(const ModelConfig& config);  // adds all keys of a model
  // Starts a new source. add_preset, add_file, add_json, add_model and add_defaults call it. Values from
  // add_text belong to the current source.
  void begin_source() { ++source_; }
  // Adds a command's default values for keys that no other source sets.
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

// Returns "; did you mean gpt3-small, ...?" if `name` is a prefix of preset names or similar to one of them.
// Otherwise returns "".
std::string suggest_preset(std::string_view name);

// Describes a config key with its name, group and help text.
struct KeyInfo {
  std::string name, group, help;
  bool is_list = false, is_bool = false, is_string = false;
  bool is_model = false;                  // true for a key of ModelConfig
  std::vector<std::string> choices = {};  // allowed values; empty: any value
};
// Returns all config keys of the model and of training, in the order of the documentation.
std::vector<KeyInfo> config_keys();

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

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Stores all settings of a fine-tuning run. `run` contains the settings that all training runs have; its key
// `data` names files with examples. The other fields are specific to fine-tuning.
struct TuneConfig {
  std::string task;
  std::string model;  // path of the model to fine-tune
  // Number of epochs if `steps` is not set; 0: chosen from the number of examples (fitting_length).
  double epochs = 0;
  int64_t n_ctx = 0;      // maximum tokens per sample; 0: the length of the longest example
  bool skip_bad = false;  // skip and count invalid examples
  double beta = 0.1;      // for dpo
  // Settings of the adapter. If lora_rank is 0, the model itself is trained instead.
  int64_t lora_rank = 0;
  double lora_alpha = 0;  // 0: 2 * lora_rank
  double lora_dropout = 0;
  bool rslora = false;
  std::vector<std::string> lora_targets = {"all-linear"};
  std::string chat_template;                // name of a chat format; "": the model's own template
  std::string long_conversations = "drop";  // for chat: drop, truncate or refuse
  // Settings of the task grpo.
  int64_t rollouts = 16, max_tokens = 32, top_k = 0;
  double temperature = 1;
  std::string reward = "exact", reward_command;
  double reward_seconds = 60;

  // Settings of tasks with a head.
  double aux_weight = 0.5, head_dropout = 0.1;
  // Labels in the order of the head's rows. If empty, the sorted labels of the data are used.
  std::vector<std::string> labels = {};
  std::vector<std::string> class_weights = {};  // entries LABEL=X, or "balanced"
  std::string long_examples = "cut";            // cut or refuse

  RunConfig run;  // shape of the trained model, and training settings

  const TrainConfig& train() const { return run.train; }
};

// Visits the settings that only fine-tuning has: visit(key, field).
template <class Config, class Visit>
// NOLINTNEXTLINE(readability-function-size): a table of definitions
void visit_tune_keys(Config& c, Visit&& visit) {
  visit(Key{.name = "task",
            .group = "fine-tuning",
            .help = "Task to train",
            .choices = "classify|entail|similar|choose|chat|dpo|grpo",
            .is_common = true},
        c.task);
  visit(Key{.name = "model", .group = "fine-tuning", .help = "Model to fine-tune", .kind = ValueKind::model},
        c.model);
  visit(Key{.name = "epochs",
            .group = "fine-tuning",
            .help = "Number of passes over the examples, unless `steps` is given",
            .unset = "3 to 10, more for few examples",
            .min = 0,
            .max = 1e6,
            .aliases = "num_epochs|num_train_epochs",
            .is_common = true},
        c.epochs);
  visit(Key{.name = "n_ctx",
            .group = "fine-tuning",
            .help = "Maximum length of an example in tokens",
            .unset = "the longest example",
            .min = 0,
            .max = 1e7},
        c.n_ctx);
  visit(Key{.name = "skip_bad",
            .group = "fine-tuning",
            .help = "Skip examples that cannot be read, and report their number"},
        c.skip_bad);
  visit(Key{.name = "beta",
            .group = "fine-tuning",
            .help = "DPO: strength of the penalty for deviating from the initial model",
            .min = 1e-9,
            .max = 1e3},
        c.beta);
  visit(Key{.name = "lora_rank",
            .group = "fine-tuning",
            .help = "Rank of the LoRA adapter. 0: train all weights of the model",
            .min = 0,
            .max = 65536,
            .aliases = "lora_r",
            .is_common = true},
        c.lora_rank);
  visit(Key{.name = "lora_alpha",
            .group = "fine-tuning",
            .help = "Scale of the adapter: its output is multiplied by alpha / rank",
            .unset = "2 x lora_rank",
            .min = 0,
            .max = 1e6},
        c.lora_alpha);
  visit(Key{.name = "lora_dropout",
            .group = "fine-tuning",
            .help = "Dropout rate of the adapter's input",
            .min = 0,
            .max = 0.99},
        c.lora_dropout);
  visit(Key{.name = "rslora",
            .group = "fine-tuning",
            .help = "Multiply the adapter's output by alpha / sqrt(rank) instead"},
        c.rslora);
  visit(Key{.name = "lora_targets",
            .group = "fine-tuning",
            .help = "Matrices that receive an adapter",
            .unset = "all-linear",
            .value = "NAME ..."},
        c.lora_targets);
  visit(Key{.name = "template",
            .group = "fine-tuning",
            .help = "Built-in chat template to use",
            .unset = "the model's own template",
            .aliases = "chat_template",
            .value = "NAME",
            .is_common = true},
        c.chat_template);
  visit(Key{.name = "long_conversations",
            .group = "fine-tuning",
            .help = "Chat: action for conversations that are longer than a row",
            .choices = "drop|truncate|refuse"},
        c.long_conversations);
  visit(Key{.name = "rollouts",
            .group = "fine-tuning",
            .help = "GRPO: number of responses sampled for each prompt of a step",
            .min = 2,
            .max = 4096},
        c.rollouts);
  visit(Key{.name = "max_tokens",
            .group = "fine-tuning",
            .help = "GRPO: maximum length of a response in tokens",
            .min = 1,
            .max = 1e6,
            .aliases = "max_new_tokens"},
        c.max_tokens);
  visit(Key{.name = "temperature",
            .group = "fine-tuning",
            .help = "GRPO: sampling temperature, which also applies to the log-probabilities",
            .min = 1e-9,
            .max = 1e3,
            .aliases = "temp"},
        c.temperature);
  visit(Key{.name = "top_k",
            .group = "fine-tuning",
            .help = "GRPO: sample from the k most likely tokens. 0: all tokens",
            .min = 0,
            .max = 1e9},
        c.top_k);
  visit(Key{.name = "reward",
            .group = "fine-tuning",
            .help = "GRPO: reward function",
            .choices = "exact|regex|number|command",
            .is_common = true},
        c.reward);
  visit(Key{.name = "reward_command",
            .group = "fine-tuning",
            .help = "GRPO: command that reads JSON lines and writes one reward per line",
            .value = "COMMAND"},
        c.reward_command);
  visit(Key{.name = "reward_seconds",
            .group = "fine-tuning",
            .help = "GRPO: maximum time of the reward command per step, in seconds",
            .min = 0.01,
            .max = 1e6},
        c.reward_seconds);
  visit(Key{.name = "aux_weight",
            .group = "fine-tuning",
            .help = "Weight of the language modelling loss on the same text, added to the task's loss",
            .min = 0,
            .max = 1e3},
        c.aux_weight);
  visit(Key{.name = "head_dropout",
            .group = "fine-tuning",
            .help = "Dropout rate before the classification head",
            .min = 0,
            .max = 0.99},
        c.head_dropout);
  visit(Key{.name = "labels",
            .group = "fine-tuning",
            .help = "Labels, in the order of the head's rows",
            .unset = "the labels of the data, sorted",
            .value = "LABEL ..."},
        c.labels);
  visit(Key{.name = "class_weights",
            .group = "fine-tuning",
            .help = "Weights of the labels in the loss, as LABEL=X, or balanced",
            .value = "LABEL=X ..."},
        c.class_weights);
  visit(Key{.name = "long_examples",
            .group = "fine-tuning",
            .help = "Action for examples that are longer than n_ctx",
            .choices = "cut|refuse"},
        c.long_examples);
}

// Returns the descriptions of the settings that only fine-tuning has, in the order of the documentation.
std::vector<KeyInfo> tune_keys();

// Returns the content of finetune.json, which contains the settings that are not in config.json.
nlohmann::json tune_config_json(const TuneConfig& config);
// Reads the settings from the folder of a run.
TuneConfig read_tune_config(const std::string& folder);

const std::vector<std::string>& task_names();

// Throws invalid_argument naming a setting that is out of range.
void check_tuning(const TuneConfig& config);

// Returns the keys that the task of the config uses.
std::vector<std::string> used_keys(const TuneConfig& config);
// Returns true if fine-tuning uses this key of the training or model config.
bool reads_training_key(const std::string& name);
// Throws invalid_argument if a setting that the task does not use differs from its default. The error names
// the setting.
void check_used(const TuneConfig& config);

// Model width to which the default learning rates apply: the width of GPT-1 and GPT-2.
inline constexpr int64_t kRateWidth = 768;

// Returns the default training settings for a model of this width. Tasks with a head use the recipe of GPT-1
// (Radford et al. 2018, section 4.1); other tasks use common values. Narrow models need larger steps than
// GPT-1, and wide models need smaller steps. The learning rate is therefore the rate for kRateWidth times
// tuning_rate_scale. `adapter` is true if an adapter is trained, which needs a higher rate.
nlohmann::json tuning_defaults(const std::string& task, bool adapter = false, int64_t n_embd = kRateWidth);
double tuning_rate_scale(int64_t n_embd);

// Stores the batch size and the number of epochs that fitting_length chooses.
struct TuneLength {
  int64_t batch_size;
  double epochs;
};
struct BatchSizes {
  int64_t unit = 1;      // a batch contains a multiple of this number of samples
  int64_t smallest = 1;  // batch size for few examples
  int64_t largest = 32;  // batch size for many examples
};
// Chooses the batch size and the number of epochs. `samples` is the number of samples per epoch. `epochs` is
// the requested number of epochs, or 0. With few samples, the batch size is reduced and then the number of
// epochs is increased until the run has kFewestSteps steps.
TuneLength fitting_length(int64_t samples, const BatchSizes& sizes, double epochs);
inline constexpr int64_t kFewestSteps = 300;

}  // namespace gpt

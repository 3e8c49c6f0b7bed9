#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Stores all settings of a fine-tuning run: the settings of training, in which `data` are examples, and the
// settings below.
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
  // Labels in the order of the head's rows. Empty: the labels of the data, sorted.
  std::vector<std::string> labels = {};
  std::vector<std::string> class_weights = {};  // entries LABEL=X, or "balanced"
  std::string long_examples = "cut";            // cut or refuse

  RunConfig run;  // shape of the trained model, and training settings

  const TrainConfig& train() const { return run.train; }
};

// Visits the settings that only fine-tuning has, with their key, field and help text.
template <class Config, class Visit>
void visit_tune_keys(Config& c, Visit&& visit) {
  visit("task", c.task, "what is learned");
  visit("model", c.model, "what is fine-tuned");
  visit(
      "epochs", c.epochs,
      "passes over the examples, unless `steps` says how long; 0: 3 to 10, so that few are seen more often");
  visit("n_ctx", c.n_ctx, "most tokens of a sample; 0: of the longest example");
  visit("skip_bad", c.skip_bad, "pass over examples that cannot be read, and count them");
  visit("beta", c.beta, "dpo: how far the model may go from the one it starts from");
  visit("lora_rank", c.lora_rank, "rank of the adapter; 0: the model itself is trained");
  visit("lora_alpha", c.lora_alpha, "its products count alpha / rank (alpha = 2 rank)");
  visit("lora_dropout", c.lora_dropout, "of what it reads");
  visit("rslora", c.rslora, "its products count alpha / sqrt(rank)");
  visit("lora_targets", c.lora_targets, "the matrices that have one");
  visit("template", c.chat_template, "the chat format, where the model has no template");
  visit("long_conversations", c.long_conversations, "chat: drop, truncate or refuse those longer than a row");
  visit("rollouts", c.rollouts, "grpo: answers to each prompt of a step");
  visit("max_tokens", c.max_tokens, "grpo: most tokens of an answer");
  visit("temperature", c.temperature, "grpo: of sampling; log-probabilities are taken at it too");
  visit("top_k", c.top_k, "grpo: sample from the k most likely tokens; 0: from all");
  visit("reward", c.reward, "grpo: exact, regex, number or command");
  visit("reward_command", c.reward_command, "grpo: reads JSON lines, writes a number a line");
  visit("reward_seconds", c.reward_seconds, "grpo: how long that may take in a step");
  visit("aux_weight", c.aux_weight,
        "what the language model's loss on the same text counts beside the task's");
  visit("head_dropout", c.head_dropout, "dropout of what the head reads");
  visit("labels", c.labels, "the labels, in the order of the head's rows (those of the data, sorted)");
  visit("class_weights", c.class_weights, "how much examples of a label count: LABEL=X, or balanced");
  visit("long_examples", c.long_examples, "examples longer than n_ctx: cut|refuse");
}

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
// Throws invalid_argument naming a setting that differs from its default although the task does not use it.
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

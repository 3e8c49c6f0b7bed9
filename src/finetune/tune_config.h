#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Every setting of a fine-tuning run: those of training, where data are examples, and those below.
struct TuneConfig {
  std::string task;
  std::string model;      // the path of what is fine-tuned
  double epochs = 0;      // without `steps`; 0: as many as fit the examples (fitting_length)
  int64_t n_ctx = 0;      // most tokens of a sample; 0: as many as the longest example has
  bool skip_bad = false;  // pass over bad examples, and count them
  double beta = 0.1;      // dpo
  // An adapter that is trained beside the model; rank 0: the model itself is.
  int64_t lora_rank = 0;
  double lora_alpha = 0;  // 2 lora_rank
  double lora_dropout = 0;
  bool rslora = false;
  std::vector<std::string> lora_targets = {"all-linear"};
  std::string chat_template;                // the name of a format; "": the model's own template
  std::string long_conversations = "drop";  // chat: or "truncate", "refuse"
  // grpo
  int64_t rollouts = 16, max_tokens = 32, top_k = 0;
  double temperature = 1;
  std::string reward = "exact", reward_command;
  double reward_seconds = 60;

  // Of tasks with a head.
  double aux_weight = 0.5, head_dropout = 0.1;
  std::vector<std::string> labels = {};  // in the order of the head's rows; none: those of the data, sorted
  std::vector<std::string> class_weights = {};  // LABEL=X each, or "balanced"
  std::string long_examples = "cut";            // or "refuse"

  RunConfig run;  // the model's shape as it is trained, and how

  const TrainConfig& train() const { return run.train; }
};

// Name, field and help of the settings that only fine-tuning has.
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

// What config.json of a run's folder leaves open, as the run's finetune.json has it.
nlohmann::json tune_config_json(const TuneConfig& config);
// From the folder of a run.
TuneConfig read_tune_config(const std::string& folder);

const std::vector<std::string>& task_names();

// Throws invalid_argument naming the setting that is out of range.
void check_tuning(const TuneConfig& config);

// The keys that the task of a config reads.
std::vector<std::string> used_keys(const TuneConfig& config);
// Whether fine-tuning reads that key of training, or of a model.
bool reads_training_key(const std::string& name);
// Throws invalid_argument naming a setting that is not at its default and that the task does not read.
void check_used(const TuneConfig& config);

// The width whose learning rates the defaults below state: that of GPT-1 and GPT-2.
inline constexpr int64_t kRateWidth = 768;

// Returns the defaults of training keys for a model of this width: GPT-1's recipe (Radford et al. 2018,
// section 4.1) for tasks with a head, common values for other tasks. Narrow models need larger steps
// than GPT-1 and wide ones smaller steps: the rate is that of GPT-1's width times tuning_rate_scale.
// `adapter`: an adapter is trained, at a higher rate.
nlohmann::json tuning_defaults(const std::string& task, bool adapter = false, int64_t n_embd = kRateWidth);
double tuning_rate_scale(int64_t n_embd);

// How a run is cut into steps where nobody says so.
struct TuneLength {
  int64_t batch_size;
  double epochs;
};
struct BatchSizes {
  int64_t unit = 1;      // a batch is a multiple of it
  int64_t smallest = 1;  // for few examples, and
  int64_t largest = 32;  // for many
};
// `samples`: samples per epoch. `epochs`: the requested number, or 0. Few samples get a smaller batch, and
// then more epochs, until the run has kFewestSteps.
TuneLength fitting_length(int64_t samples, const BatchSizes& sizes, double epochs);
inline constexpr int64_t kFewestSteps = 300;

}  // namespace gpt

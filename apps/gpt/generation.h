#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/model_text.h"
#include "infer/generate.h"
#include "model/inference.h"
#include "options.h"

namespace gpt {

// What the flags of `gpt generate` say, and those of them that `gpt chat` has too.
struct GenerateArguments {
  std::string model, tokenizer;
  std::vector<std::string> prompts, prompt_files, ids, stops, logit_bias;
  int64_t max_tokens = 200;
  SamplingParams sampling{.temperature = 0.8, .top_k = 40};
  std::string top_p_rule = "crossing", context = "crop", dtype, kv_dtype;
  bool greedy = false, ignore_eos = false, no_bos = false, json = false, in_place = false;
  int64_t beams = 0, n = 1, seed = 1;
  std::optional<int64_t> logprobs;
  std::vector<std::string> drawing;  // flags for drawing tokens that were given, not set by the environment
  double length_penalty = 0;
  MachineOptions machine;
};

// The flags that say how tokens are drawn, and in which types a model computes.
void add_sampling_options(CLI::App& app, GenerateArguments& arguments);
void add_weight_options(CLI::App& app, GenerateArguments& arguments);
// The types and the place of weights, activations and cache; weights in blocks are multiplied where they are,
// whatever --dtype says. Throws UsageError.
void set_types(Inference::Options& options, const GenerateArguments& arguments);

// A prompt as given and as ids. `text` is what is shown of it.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};

// The prompts of the arguments, in the order --prompt, --prompt-file, --ids; without any, one empty prompt.
// The ids of a text begin with BOS where its tokenizer says that texts do (unless no_bos); an empty prompt
// becomes the model's BOS id where it has one, else a newline. `tokenizer` may be null, then only ids can be
// given. Throws Error or UsageError.
std::vector<Prompt> read_prompts(const GenerateArguments& arguments, const Tokenizer* tokenizer,
                                 const ModelConfig& config);

GenerateOptions generate_options(const GenerateArguments& arguments, const std::vector<int32_t>& eos_ids,
                                 int64_t vocab_size);

// Writes text to standard output. Controls in it must not steer a terminal; a file or pipe gets them as they
// are.
void show_text(const std::string& text);

}  // namespace gpt

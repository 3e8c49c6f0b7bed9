#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpt/gpt.hpp"
#include "options.h"
#include "speculation_flags.h"

namespace gpt {

// The values of the flags of `gpt generate`, some of which `gpt chat` shares.
struct GenerateArguments {
  std::string model, tokenizer;
  std::vector<std::string> prompts, prompt_files, ids, logit_bias, adapters;
  gptcpp::GenerateOptions options;
  std::string context = "crop", top_p_rule = gptcpp::kTopPRules[0], dtype, kv_dtype, repack = "auto";
  bool greedy = false, no_bos = false, special = false, json = false, in_place = false;
  int64_t beams = 0, n = 1, seed = 1;
  std::optional<int64_t> logprobs;
  std::string grammar, json_schema;  // value of the flag: a file name or the text itself
  std::vector<std::string> drawing;  // sampling flags that were typed, not set by the environment
  double length_penalty = 0;
  std::string draft;
  SpeculationFlags speculation;
  MachineOptions machine;
};

// Adds the flags for sampling and for the dtypes of the model.
void add_sampling_options(CLI::App& app, GenerateArguments& arguments);
// Adds the flags that constrain the text to a grammar.
void add_grammar_options(CLI::App& app, GenerateArguments& arguments);
void add_weight_options(CLI::App& app, GenerateArguments& arguments);
void add_speculation_options(CLI::App& app, GenerateArguments& arguments);

// Add options that several commands share.
void add_stop_option(CLI::App& app, std::vector<std::string>& stops);
void add_template_option(CLI::App& app, std::string& format, const std::string& fallback);
void add_dtype_options(CLI::App& app, std::string& dtype, std::string& kv_dtype, const std::string& fallback);

// Adds the flag for adapters: DIR or DIR=SCALE. The outputs of several adapters are added.
void add_adapter_option(CLI::App& app, std::vector<std::string>& adapters);
// Returns the adapters as library options, named by the flag values.
std::vector<gptcpp::AdapterOptions> adapter_options(const GenerateArguments& arguments);

// Returns the library options for threads and kernels. The log only shows warnings.
gptcpp::ContextOptions context_options(const MachineOptions& machine);
// Sets dtype, kv_dtype, in_place and repack in SessionOptions or EngineOptions. Quantized weights are used
// directly, whatever --dtype is. Throws invalid_argument.
template <class Options>
void set_types(Options& options, const GenerateArguments& a) {
  if (!a.dtype.empty()) options.dtype = dtype_name(parse_dtype("--dtype", a.dtype));
  if (!a.kv_dtype.empty()) options.kv_dtype = dtype_name(parse_kv_dtype(a.kv_dtype, DType::f32));
  options.in_place = a.in_place;
  options.repack = repack_name(chosen_repack(a.repack));
}
// Sets the options of speculative decoding. Throws invalid_argument.
template <class Options>
void set_speculation(Options& options, const GenerateArguments& a) {
  check_draft(a.draft);
  options.speculate = a.speculation.source;
  options.draft = a.draft;
  options.draft_tokens = a.speculation.draft_tokens;
}

// A prompt as text and as token ids. `text` is printed before the completion.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};
// Functions that convert a text to token ids, and an id to printable text.
struct PromptReader {
  std::function<std::vector<int32_t>(const std::string& text)> ids_of;
  std::function<std::string(int32_t id)> text_of;
};

// Returns the prompts of the arguments in the order --prompt, --prompt-file, --ids. Without any, returns the
// text piped to standard input, or one empty prompt. Throws Error.
std::vector<Prompt> read_prompts(const GenerateArguments& arguments, const PromptReader& reader);

// Returns arguments.options, completed with the values of flags that need a conversion, such as --greedy and
// --logit-bias. Throws invalid_argument.
gptcpp::GenerateOptions generate_options(const GenerateArguments& arguments);

// Writes text to standard output. If standard output is a terminal, control characters are made visible, so
// that they cannot control the terminal. Files and pipes receive the text unchanged.
void show_text(const std::string& text);
// Writes JSON to standard output. On a terminal, control characters that JSON allows (DEL, C1) are escaped.
void show_json(const std::string& json);

}  // namespace gpt

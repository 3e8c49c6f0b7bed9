#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpt/gpt.hpp"
#include "options.h"
#include "speculation_flags.h"

namespace gpt {

// What the flags of `gpt generate` say, and those of them that `gpt chat` has too.
struct GenerateArguments {
  std::string model, tokenizer;
  std::vector<std::string> prompts, prompt_files, ids, logit_bias, adapters;
  gptcpp::GenerateOptions options;
  std::string context = "crop", dtype, kv_dtype, repack = "auto";
  bool greedy = false, no_bos = false, special = false, json = false, in_place = false;
  int64_t beams = 0, n = 1, seed = 1;
  std::optional<int64_t> logprobs;
  std::string grammar, json_schema;  // as given: a file or the text itself
  std::vector<std::string> drawing;  // flags for drawing tokens that were given, not set by the environment
  double length_penalty = 0;
  std::string draft;
  SpeculationFlags speculation;
  MachineOptions machine;
};

// The flags that say how tokens are drawn, and in which types a model computes.
void add_sampling_options(CLI::App& app, GenerateArguments& arguments);
// The flags that say what the text must be.
void add_grammar_options(CLI::App& app, GenerateArguments& arguments);
void add_weight_options(CLI::App& app, GenerateArguments& arguments);
void add_speculation_options(CLI::App& app, GenerateArguments& arguments);

// The adapters of a command line: DIR or DIR=SCALE, all added up.
void add_adapter_option(CLI::App& app, std::vector<std::string>& adapters);
// The same for the library, where they have the names that were given.
std::vector<gptcpp::AdapterOptions> adapter_options(const GenerateArguments& arguments);

// What the library is told of the machine. It says nothing but warnings.
gptcpp::ContextOptions context_options(const MachineOptions& machine);
// The types and the place of weights and cache, for SessionOptions or EngineOptions; weights in blocks are
// multiplied where they are, whatever --dtype says. Throws invalid_argument.
template <class Options>
void set_types(Options& options, const GenerateArguments& a) {
  if (!a.dtype.empty()) options.dtype = dtype_name(parse_dtype("--dtype", a.dtype));
  if (!a.kv_dtype.empty()) options.kv_dtype = dtype_name(parse_kv_dtype(a.kv_dtype, DType::f32));
  options.in_place = a.in_place;
  options.repack = repack_name(chosen_repack(a.repack));
}
// How they speculate. Throws invalid_argument.
template <class Options>
void set_speculation(Options& options, const GenerateArguments& a) {
  check_draft(a.draft);
  options.speculate = a.speculation.source;
  options.draft = a.draft;
  options.draft_tokens = a.speculation.draft_tokens;
}

// A prompt as given and as ids. `text` is what is shown of it.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};
// How a model's texts become ids, and what is shown of an id.
struct PromptReader {
  std::function<std::vector<int32_t>(const std::string& text)> ids_of;
  std::function<std::string(int32_t id)> text_of;
};

// The prompts of the arguments, in the order --prompt, --prompt-file, --ids; without any, the text that is
// piped to standard input, else one empty prompt. Throws Error.
std::vector<Prompt> read_prompts(const GenerateArguments& arguments, const PromptReader& reader);

// Completes the options by the flags that are not fields of theirs. Throws invalid_argument.
gptcpp::GenerateOptions generate_options(const GenerateArguments& arguments);

// Writes text to standard output. Controls in it must not steer a terminal; a file or pipe gets them as they
// are.
void show_text(const std::string& text);
// The same for JSON, which a terminal gets with the controls that JSON allows (DEL, C1) as escapes.
void show_json(const std::string& json);

}  // namespace gpt

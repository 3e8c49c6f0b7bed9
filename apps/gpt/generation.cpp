#include "generation.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "input.h"
#include "output.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr uint64_t kMaxPromptBytes = uint64_t{1} << 30;

std::string read_prompt_file(const std::string& path) {
  if (path != "-") return read_file(path, kMaxPromptBytes);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

Prompt text_prompt(const std::string& text, const Tokenizer* tokenizer, const ModelConfig& config,
                   bool no_bos) {
  if (tokenizer != nullptr) return {text, prompt_ids(text, *tokenizer, config, no_bos)};
  if (text.empty() && config.bos_token_id >= 0) return {"", {static_cast<int32_t>(config.bos_token_id)}};
  fail(
      "this model has no tokenizer.json, so it cannot read {}; give token ids with --ids 1,2,3 or a "
      "tokenizer with "
      "--tokenizer",
      text.empty() ? "an empty prompt" : "text");
}

std::map<int32_t, double> parse_logit_bias(const std::vector<std::string>& entries) {
  std::map<int32_t, double> bias;
  for (const std::string& entry : entries) {
    for (const std::string_view item : split(entry, ',')) {
      const size_t equals = std::min(item.find('='), item.size());
      std::string_view number = item.substr(std::min(equals + 1, item.size()));
      if (number.starts_with('+')) number.remove_prefix(1);
      const auto id = parse_number<int32_t>(item.substr(0, equals));
      const auto value = parse_number<double>(number);
      if (!id || !value || std::isnan(*value))
        fail_usage("--logit-bias: expected ID=VALUE,... (value: a number, inf or -inf), found \"{}\"",
                   item.substr(0, 64));
      if (!bias.emplace(*id, *value).second)
        fail_usage("--logit-bias: expected every ID once, found {} twice", *id);
    }
  }
  return bias;
}

}  // namespace

std::vector<Prompt> read_prompts(const GenerateArguments& a, const Tokenizer* tokenizer,
                                 const ModelConfig& config) {
  std::vector<Prompt> prompts;
  for (const std::string& text : a.prompts)
    prompts.push_back(text_prompt(text, tokenizer, config, a.no_bos));
  for (const std::string& path : a.prompt_files)
    prompts.push_back(text_prompt(read_prompt_file(path), tokenizer, config, a.no_bos));
  for (const std::string& list : a.ids) {
    Prompt prompt{"", parse_ids(list, "--ids")};
    if (prompt.ids.empty()) fail_usage("--ids: expected at least one token id, found none");
    for (const int32_t id : prompt.ids) {
      if (tokenizer != nullptr) prompt.text += bytes_of(*tokenizer, id);
    }
    prompts.push_back(prompt);
  }
  if (prompts.empty()) prompts.push_back(text_prompt("", tokenizer, config, a.no_bos));
  return prompts;
}

GenerateOptions generate_options(const GenerateArguments& a, const std::vector<int32_t>& eos_ids,
                                 int64_t vocab_size) {
  if (a.seed < 0) fail_usage("--seed: expected a number of at least 0, found {}", a.seed);
  GenerateOptions options;
  options.max_tokens = a.max_tokens;
  options.sampling = a.sampling;
  if (a.greedy) options.sampling.temperature = 0;
  options.sampling.top_p_rule = parse_top_p_rule(a.top_p_rule);
  options.sampling.logit_bias = parse_logit_bias(a.logit_bias);
  validate(options.sampling, vocab_size);
  options.seed = static_cast<uint64_t>(a.seed);
  options.n = a.n;
  if (!a.ignore_eos) options.eos_ids = eos_ids;
  options.context = parse_context_policy(a.context);
  if (a.logprobs && *a.logprobs < 0)
    fail_usage("--logprobs: expected 0 or a positive number, found {}", *a.logprobs);
  options.logprobs = a.logprobs.value_or(-1);
  return options;
}

void add_sampling_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("sampling");
  const auto number = [&](const char* name, auto& value, const char* help) {
    add_shown(app, name, value, "X", help);
  };
  number("--temperature", a.sampling.temperature, "0 is greedy");
  number("--top-k", a.sampling.top_k, "draw from the k likeliest tokens; 0: off");
  number("--top-p", a.sampling.top_p, "draw from the likeliest tokens that sum to p; 1: off");
  add_value(app, "--top-p-rule", a.top_p_rule, "crossing|reaching", "which token is the last of --top-p");
  number("--min-p", a.sampling.min_p, "keep tokens at least this likely relative to the likeliest; 0: off");
  number("--repetition-penalty", a.sampling.repetition_penalty, "of tokens in prompt or output; 1: off");
  number("--presence-penalty", a.sampling.presence_penalty, "subtracted once from tokens of the output");
  number("--frequency-penalty", a.sampling.frequency_penalty, "subtracted per occurrence in the output");
  add_repeated(app, "--logit-bias", a.logit_bias, "added to logits; -inf forbids")->type_name("ID=V,...");
  app.add_flag("--greedy", a.greedy, "always the likeliest token");
  number("--seed", a.seed, "equal seeds give equal texts");
  app.option_defaults()->group("Options");
}

void add_weight_options(CLI::App& app, GenerateArguments& a) {
  add_value(app, "--dtype", a.dtype, "fp32|bf16|fp16|q8_0|q4_0",
            "type of the products with weights (fp32, which reads fp32 and 16-bit weights where the "
            "file has them)");
  app.add_flag(
      "--in-place", a.in_place,
      "with --dtype bf16: bf16 weights too are read where the file has them, which is slower than a copy in "
      "another layout but takes no memory");
  add_value(app, "--kv-dtype", a.kv_dtype, "fp32|bf16|fp16|int8",
            "type of cached keys and values (what suits --dtype)");
}

void set_types(Inference::Options& options, const GenerateArguments& a) {
  options.weights = a.dtype.empty() ? DType::f32 : parse_dtype("--dtype", a.dtype);
  options.dtype = inference_types(*options.weights).activations;
  options.kv_dtype = parse_kv_dtype(a.kv_dtype, *options.weights);
  options.in_place = a.in_place || *options.weights != DType::bf16;
}

void show_text(const std::string& text) {
  write_output(output_is_terminal() ? visible_text(text, true) : text);
}

}  // namespace gpt

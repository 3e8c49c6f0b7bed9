#include <algorithm>

#include "text/pre_tokenizer.h"

namespace gpt::detail {
namespace {

using Kind = SplitStep::Kind;

SplitStep regex(const char* pattern) {
  return {.kind = Kind::regex, .regex = pattern};
}

struct Named {
  std::vector<std::string_view> names;  // the first name is used when writing files
  std::vector<SplitStep> steps;
};

// Source: llama.cpp, src/llama-vocab.cpp.
const std::vector<Named>& all_named() {
  static const SplitStep kGpt2{.pattern = SplitPattern::gpt2};
  static const SplitStep kPunctuation = regex(R"([\p{P}\$\+<=>\^~\|`]+)"), kThree = regex("[0-9][0-9][0-9]");
  static const std::vector<Named> all = {
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"},
       {regex(R"(\p{N})"), kGpt2}},
      {{"falcon"}, {kPunctuation, kGpt2, kThree}},
      {{"default"}, {regex(R"([\p{P}\$\+<=>\^\~\|]+)"), kGpt2, regex(R"(\p{N}+)"), kThree}},
      {{"tekken"},
       {regex(
           R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}},
      {{"deepseek-coder"},
       {regex(R"([\r\n])"), regex(R"(\s?\p{L}+)"), regex(R"(\s?\p{P}+)"),
        regex("[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"), regex(R"(\p{N})")}},
      {{"deepseek-v3", "hunyuan-dense"},
       {regex(R"(\p{N}{1,3})"), regex("[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"),
        regex(
            R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}},
  };
  return all;
}

// Converts a step of a Hugging Face pre-tokenizer to the equivalent regular expression of llama.cpp.
SplitStep plain(SplitStep step) {
  if (step.kind == Kind::digits && step.each_digit && !step.in_alphabet) return regex(R"(\p{N})");
  return step;
}

}  // namespace

std::vector<SplitStep> steps_of_gguf_name(std::string_view name) {
  for (const Named& named : all_named()) {
    if (std::ranges::find(named.names, name) != named.names.end()) return named.steps;
  }
  return {};
}

std::vector<std::string_view> gguf_split_names() {
  std::vector<std::string_view> names = gguf_names();
  for (const Named& named : all_named())
    names.insert(names.end(), named.names.begin(), named.names.end());
  return names;
}

std::string_view gguf_name_of_steps(const std::vector<SplitStep>& steps) {
  for (const Named& named : all_named()) {
    if (std::ranges::equal(steps, named.steps, {}, plain)) return named.names[0];
  }
  return {};
}

}  // namespace gpt::detail

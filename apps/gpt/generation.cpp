#include "generation.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "convert/adapter_files.h"
#include "infer/sampler.h"
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

// Returns true if standard input is a pipe or a file, but not for a terminal or /dev/null.
bool has_piped_input() {
  struct stat status {};
  return ::fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode));
}

// Returns the text from standard input, without the last newline, which echo adds.
std::string piped_prompt() {
  std::string text = read_input();
  if (text.ends_with('\n')) text.pop_back();
  return text;
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

void add_adapter_option(CLI::App& app, std::vector<std::string>& adapters) {
  add_repeated(app, "--adapter,--lora", adapters,
               "LoRA adapter on the model, perhaps scaled; several are added up")
      ->type_name("DIR[=SCALE]");
}

std::vector<gptcpp::AdapterOptions> adapter_options(const GenerateArguments& a) {
  return transformed(a.adapters, [](const std::string& text) {
    const AdapterChoice choice = parse_adapter(text);
    return gptcpp::AdapterOptions{text, choice.path, choice.scale};
  });
}

gptcpp::ContextOptions context_options(const MachineOptions& machine) {
  return {.threads = chosen_threads(machine),
          .instruction_set = std::string(isa_name(chosen_isa())),
          .log = [](gptcpp::LogLevel level, std::string_view line) {
            if (level == gptcpp::LogLevel::warning) write_note(fmt::format("note: {}\n", line));
          }};
}

std::vector<Prompt> read_prompts(const GenerateArguments& a, const PromptReader& reader) {
  std::vector<Prompt> prompts;
  const auto add = [&](const std::string& text) { prompts.push_back({text, reader.ids_of(text)}); };
  for (const std::string& text : a.prompts)
    add(text);
  for (const std::string& path : a.prompt_files)
    add(read_prompt_file(path));
  for (const std::string& list : a.ids) {
    Prompt prompt{"", parse_ids(list, "--ids")};
    if (prompt.ids.empty()) fail_usage("--ids: expected at least one token id, found none");
    for (const int32_t id : prompt.ids)
      prompt.text += reader.text_of(id);
    prompts.push_back(prompt);
  }
  if (prompts.empty()) add(has_piped_input() ? piped_prompt() : "");
  return prompts;
}

namespace {

// Returns the value of a flag if it contains `sign`, which is unlikely in a path. Otherwise returns the
// content of the file that the value names.
std::string text_or_file(const char* flag, const std::string& value, std::string_view sign) {
  if (value.empty() || value.find(sign) != std::string::npos) return value;
  constexpr uint64_t kMostBytes = uint64_t{16} << 20;
  std::string text = read_file(value, kMostBytes);
  if (text.empty()) fail("{}: expected text in {}, found an empty file", flag, value);
  return text;
}

}  // namespace

gptcpp::GenerateOptions generate_options(const GenerateArguments& a) {
  if (a.seed < 0) fail_usage("--seed: expected a number of at least 0, found {}", a.seed);
  if (a.logprobs && *a.logprobs < 0)
    fail_usage("--logprobs: expected 0 or a positive number, found {}", *a.logprobs);
  gptcpp::GenerateOptions options = a.options;
  if (a.greedy) options.sampling.temperature = 0;
  options.sampling.top_p_rule = parse_top_p_rule(a.top_p_rule);
  options.sampling.logit_bias = parse_logit_bias(a.logit_bias);
  options.seed = static_cast<uint64_t>(a.seed);
  options.logprobs = a.logprobs.value_or(-1);
  options.adapters = a.adapters;
  options.grammar = text_or_file("--grammar", a.grammar, "::=");
  options.json_schema = text_or_file("--json-schema", a.json_schema, "{");
  return options;
}

namespace {

std::string flag_of(const SamplingField& field) {
  std::string flag = "--" + std::string(field.name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

// Each function adds the flag of a sampling parameter.
void add_field(CLI::App& app, GenerateArguments&, const SamplingField& field, auto& number) {
  add_shown(app, flag_of(field).c_str(), number, "X", field.help);
}

void add_field(CLI::App& app, GenerateArguments& a, const SamplingField& field, TopPRule&) {
  const std::string rules = fmt::format("{}", fmt::join(gptcpp::kTopPRules, "|"));
  add_value(app, flag_of(field).c_str(), a.top_p_rule, rules.c_str(), field.help);
}

void add_field(CLI::App& app, GenerateArguments& a, const SamplingField& field, std::map<int32_t, double>&) {
  add_repeated(app, flag_of(field), a.logit_bias, field.help)->type_name("ID=X,...");
}

}  // namespace

void add_sampling_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("sampling");
  gptcpp::visit_sampling(a.options.sampling,
                         [&](const SamplingField& field, auto& value) { add_field(app, a, field, value); });
  app.add_flag("--greedy", a.greedy, "always the likeliest token");
  add_shown(app, "--seed", a.seed, "X", "equal seeds give equal texts");
  app.option_defaults()->group("Options");
}

void add_grammar_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("what the text must be");
  add_value(app, "--json-schema", a.json_schema, "FILE|TEXT", "JSON that fits this schema");
  add_value(app, "--grammar", a.grammar, "FILE|TEXT", "text that fits this grammar in llama.cpp's GBNF");
  add_value(app, "--regex", a.options.regex, "PATTERN", "text that fits this regular expression as a whole");
  app.option_defaults()->group("Options");
}

void add_weight_options(CLI::App& app, GenerateArguments& a) {
  add_value(app, "--dtype", a.dtype, "fp32|bf16|fp16|q8_0|q4_0",
            "type of the products with weights (fp32, which reads fp32 and 16-bit weights where the "
            "file has them)");
  app.add_flag(
      "--in-place", a.in_place,
      "with --dtype bf16: bf16 weights too are read where the file has them, which is slower than a copy in "
      "another layout but with --repack never takes no memory");
  add_value(app, "--kv-dtype", a.kv_dtype, "fp32|bf16|fp16|int8|q4_0",
            "type of cached keys and values (what suits --dtype)");
  add_repack_option(app, a.repack);
}

void add_speculation_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("speculative decoding");
  add_value(app, "--draft", a.draft, "MODEL", "smaller model of the same vocabulary that proposes tokens");
  add_speculation_options(app, a.speculation);
  app.option_defaults()->group("Options");
}

void show_json(const std::string& json) {
  if (!output_is_terminal()) return write_output(json);
  std::string out;
  for (size_t at = 0; at < json.size();) {
    const size_t begin = at;
    const char32_t code = next_code_point(json, at);
    if (code >= 0x7F && code < 0xA0) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      out.append(json, begin, at - begin);
    }
  }
  write_output(out);
}

void show_text(const std::string& text) {
  write_output(output_is_terminal() ? visible_text(text, true) : text);
}

}  // namespace gpt

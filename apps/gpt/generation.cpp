#include "generation.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "convert/adapter_files.h"
#include "infer/sampler.h"
#include "input.h"
#include "output.h"
#include "report/utf8_text.h"
#include "text/chat_formats.h"

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
  add(app,
      {.flags = "--adapter,--lora",
       .value = "DIR[=SCALE]",
       .help = "LoRA adapter and its scale. The outputs of several adapters are added",
       .kind = ValueKind::model,
       .is_repeated = true},
      adapters);
}

void add_stop_option(CLI::App& app, std::vector<std::string>& stops) {
  add(app,
      {.flags = "--stop",
       .value = "TEXT",
       .help = "Stop before this text; can be repeated",
       .is_repeated = true,
       .aliases = "--reverse-prompt",
       .common = true},
      stops);
}

void add_template_option(CLI::App& app, std::string& format, const std::string& fallback) {
  add(app,
      {.flags = "--template",
       .value = "NAME|FILE.jinja",
       .help = "Chat template: " + format_choices(chat_format_names()) + ", or a Jinja file",
       .fallback = fallback,
       .choices = chat_format_names(),
       .is_open = true,
       .kind = ValueKind::path,
       .aliases = kTemplateAliases,
       .common = true},
      format);
}

void add_dtype_options(CLI::App& app, std::string& dtype, std::string& kv_dtype,
                       const std::string& fallback) {
  OptionSpec spec = dtype_option();
  spec.fallback = fallback;
  spec.common = true;
  add(app, spec, dtype);
  add(app, kv_dtype_option(), kv_dtype);
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

// Returns the definition of the flag of a sampling parameter.
OptionSpec spec_of_field(const SamplingField& field) {
  return {.flags = flag_of(field.name),
          .value = "X",
          .help = field.help,
          .aliases = field.aliases,
          .common = field.common};
}

void add_field(CLI::App& app, GenerateArguments&, const SamplingField& field, auto& number) {
  add(app, spec_of_field(field), number);
}

void add_field(CLI::App& app, GenerateArguments& a, const SamplingField& field, TopPRule&) {
  OptionSpec spec = spec_of_field(field);
  spec.value = "";
  spec.choices = {std::begin(gptcpp::kTopPRules), std::end(gptcpp::kTopPRules)};
  add(app, spec, a.top_p_rule);
}

void add_field(CLI::App& app, GenerateArguments& a, const SamplingField& field, std::map<int32_t, double>&) {
  OptionSpec spec = spec_of_field(field);
  spec.value = "ID=X,...";
  spec.is_repeated = true;
  add(app, spec, a.logit_bias);
}

}  // namespace

void add_sampling_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("sampling");
  gptcpp::visit_sampling(a.options.sampling,
                         [&](const SamplingField& field, auto& value) { add_field(app, a, field, value); });
  add(app, {.flags = "--greedy", .help = "Always choose the most likely token", .common = true}, a.greedy);
  add(app,
      {.flags = "--seed",
       .value = "X",
       .help = "Random seed. The same seed gives the same text",
       .common = true},
      a.seed);
  app.option_defaults()->group("Options");
}

void add_grammar_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("constrained decoding");
  add(app,
      {.flags = "--json-schema",
       .value = "FILE|TEXT",
       .help = "Generate JSON that matches this schema",
       .kind = ValueKind::path,
       .aliases = "--json-schema-file|-j",
       .common = true},
      a.json_schema);
  add(app,
      {.flags = "--grammar",
       .value = "FILE|TEXT",
       .help = "Generate text that matches this grammar in GBNF, the format of llama.cpp",
       .kind = ValueKind::path,
       .aliases = "--grammar-file"},
      a.grammar);
  add(app,
      {.flags = "--regex",
       .value = "PATTERN",
       .help = "Generate text that matches this regular expression",
       .aliases = "--guided-regex"},
      a.options.regex);
  app.option_defaults()->group("Options");
}

void add_weight_options(CLI::App& app, GenerateArguments& a) {
  add_dtype_options(app, a.dtype, a.kv_dtype, "fp32; memory-mapped fp32 and 16-bit weights stay as they are");
  add(app,
      {.flags = "--in-place",
       .help =
           "With --dtype bf16: read memory-mapped bf16 weights directly, which is slower than a copy in a "
           "different layout, but needs no memory with --repack never"},
      a.in_place);
  add_repack_option(app, a.repack);
}

void add_speculation_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("speculative decoding");
  add(app,
      {.flags = "--draft",
       .value = "MODEL",
       .help = "Smaller model with the same vocabulary that drafts tokens",
       .kind = ValueKind::model,
       .aliases = kDraftAliases},
      a.draft);
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

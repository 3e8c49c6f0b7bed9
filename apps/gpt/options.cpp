#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "chat/model_text.h"
#include "convert/adapter_files.h"
#include "finetune/head_files.h"
#include "model/inference.h"
#include "model/presets.h"
#include "train/train_config.h"

namespace gpt {
namespace {

constexpr int64_t kMaxThreads = 1024;

// Rejects dtypes that only exist in files: quantized dtypes of ggml, or names of mixtures of llama.cpp.
void refuse_blocks(const std::string& flag, const std::string& given) {
  const std::string type = quant_type_of(given);
  if (type.empty()) return;
  fail_usage(
      "{} {}: only available in files (gpt convert MODEL OUT.gguf --quant {}); models can be quantized to "
      "q8_0 or q4_0 while loading",
      flag, given.substr(0, 64), type);
}

// Returns the names in the folder of a path, in the form in which they would be typed. Empty if the folder
// does not exist.
std::vector<std::string> neighbours(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string listed = folder.empty() ? "." : folder.string();
  if (path_kind(listed) != PathKind::folder) return {};
  return transformed(list_folder(listed), [&](const FolderEntry& e) { return (folder / e.name).string(); });
}

}  // namespace

void require_whole_tokenizer(const std::string& spec) {
  if (spec == "char") fail_usage("--tokenizer char: requires a training text; name a tokenizer.json");
  require_tokenizer(spec);
}

void require_model_or_preset(const std::string& name) {
  if (path_exists(name) || is_preset(name)) return;
  std::vector<std::string> names = neighbours(name);
  if (name.find('/') != std::string::npos)
    fail_not_found("cannot find the model {}: no such file or folder{}", name, did_you_mean(name, names));
  std::string suggestion = did_you_mean(name, names);
  if (suggestion.empty()) suggestion = suggest_preset(name);
  fail_usage(
      "unknown preset \"{}\", and there is no file or folder of this name{}; gpt info lists the presets",
      name.substr(0, 64), suggestion);
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<std::string> quant_names() {
  return {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "q4_k", "q5_k", "q6_k"};
}

std::string quant_type_of(const std::string& given) {
  std::string name = lower_case(given);
  const std::vector<std::string> names = quant_names();
  if (std::ranges::find(names, name) != names.end()) return name;
  for (const char* mixture : {"_k_s", "_k_m", "_k_l"}) {
    if (!name.starts_with('q') || !name.ends_with(mixture)) continue;
    const std::string type = name.substr(0, name.size() - 2);
    return type == "q2_k" || type == "q3_k" ? "q4_k" : type;
  }
  return "";
}

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help,
                      const std::string& footer) {
  CLI::App* app = parent.add_subcommand(name, help);
  app->allow_extras();
  for (const CLI::Option* option :
       std::initializer_list<const CLI::Option*>{app->get_help_ptr(), app->get_help_all_ptr()}) {
    if (option != nullptr) spec_of(*option).environment = false;
  }
  if (!footer.empty()) app->footer(footer);  // otherwise CLI11 would use the parent's footer
  return app;
}

void add_preset_option(CLI::App& app, std::string& preset, const std::string& fallback) {
  add(app,
      {.flags = "--preset",
       .value = "NAME",
       .help = "Named model from gpt info",
       .fallback = fallback,
       .kind = ValueKind::preset,
       .common = true},
      preset);
}

void add_config_option(CLI::App& app, std::string& file) {
  add(app,
      {.flags = "--config", .value = "FILE", .help = "JSON file with config keys", .kind = ValueKind::path},
      file);
}

void add_run_options(CLI::App& app, std::string& out, const std::string& help, bool& resume) {
  add(app,
      {.flags = "-o,--out",
       .value = "DIR",
       .help = help,
       .fallback = "runs/1, runs/2, ...",
       .kind = ValueKind::path,
       .aliases = kOutAliases,
       .common = true,
       .on_resume = true},
      out);
  add(app, {.flags = "--resume", .help = "Resume the run in --out", .common = true}, resume);
}

void add_tokenizer_option(CLI::App& app, std::string& tokenizer, const std::string& flags,
                          const std::string& fallback) {
  add(app,
      {.flags = flags,
       .value = "NAME",
       .help = "Tokenizer: a tokenizer.json, a model folder, or byte",
       .fallback = fallback,
       .choices = {"byte"},
       .is_open = true,
       .kind = ValueKind::path},
      tokenizer);
}

void add_machine_options(CLI::App& app, MachineOptions& options) {
  app.option_defaults()->group("machine");
  add(app,
      {.flags = "-t,--threads",
       .value = "N",
       .help = "Number of CPU threads",
       .fallback = "all CPUs",
       .common = true,
       .on_resume = true},
      options.threads);
  add(app,
      {.flags = "--device",
       .help = "Device to compute on",
       .choices = {"cpu"},
       .is_open = true,
       .on_resume = true},
      options.device);
  app.option_defaults()->group("Options");
}

void add_json_option(CLI::App& app, bool& json) {
  add(app, {.flags = "--json", .help = "Write JSON to standard output", .common = true, .on_resume = true},
      json);
}

void add_field_option(CLI::App& app, std::string& field, const std::string& fallback) {
  add(app,
      {.flags = "--field",
       .value = "NAME",
       .help = "Name of the text field in .jsonl files",
       .fallback = fallback},
      field);
}

void add_filter_options(CLI::App& app, FolderFilter& filter) {
  add(app,
      {.flags = "--include",
       .value = "PATTERN",
       .help = "Pattern of files to read from folders, such as '*.py'",
       .fallback = "files that look like text or code",
       .is_repeated = true},
      filter.include);
  add(app,
      {.flags = "--exclude",
       .value = "PATTERN",
       .help = "Pattern of files and folders to skip in folders",
       .is_repeated = true},
      filter.exclude);
}

Isa chosen_isa() {
  const char* name = std::getenv("GPT_ISA");
  return name == nullptr || *name == '\0' ? best_isa() : parse_isa(name);
}

int chosen_threads(const MachineOptions& options) {
  require_device("--device", options.device);
  if (options.threads < 0 || options.threads > kMaxThreads) {
    fail_usage("--threads: expected 0 (all CPUs) to {}, found {}", kMaxThreads, options.threads);
  }
  return options.threads == 0 ? available_cpus() : static_cast<int>(options.threads);
}

Machine::Machine(const MachineOptions& options)
    : pool(chosen_threads(options)), backend{pool, kernel_table(chosen_isa())} {}

void check_choice(const std::string& flag, const std::string& value,
                  const std::vector<std::string>& allowed) {
  if (std::ranges::find(allowed, value) != allowed.end()) return;
  fail_usage("{}: expected {}, found \"{}\"{}", flag, format_choices(allowed), value.substr(0, 64),
             did_you_mean(value, allowed));
}

void check_range(const char* flag, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) fail_usage("{}: expected {} to {}, found {}", flag, low, high, value);
}

DType parse_dtype(const std::string& flag, const std::string& name, std::initializer_list<DType> allowed) {
  std::vector<std::string> names;
  for (const DType t : allowed) {
    if (name == dtype_name(t)) return t;
    names.emplace_back(dtype_name(t));
  }
  if (std::ranges::find(names, "q8_0") != names.end()) refuse_blocks(flag, name);
  check_choice(flag, name, names);
  return DType::f32;
}

std::vector<std::string> matmul_dtypes() {
  return {"fp32", "bf16", "fp16", "q8_0", "q4_0"};
}

OptionSpec dtype_option() {
  return {.flags = "--dtype",
          .help = "Data type of the weights in matmuls",
          .choices = matmul_dtypes(),
          .is_open = true,
          .kind = ValueKind::dtype};
}

OptionSpec kv_dtype_option() {
  return {.flags = "--kv-dtype",
          .help = "Data type of the KV cache",
          .fallback = "fp32 with fp32 weights, fp16 with fp16, otherwise bf16",
          .choices = {"fp32", "bf16", "fp16", "int8", "q4_0"},
          .is_open = true,
          .kind = ValueKind::dtype,
          .aliases = "--kv-cache-dtype"};
}

DType parse_kv_dtype(const std::string& name, DType weights) {
  if (name.empty()) return inference_types(weights).cache;
  if (name == "q8_0")
    fail_usage("--kv-dtype: q8_0 is only available for weights; use int8 for an 8-bit KV cache");
  return parse_dtype("--kv-dtype", name, {DType::f32, DType::bf16, DType::f16, DType::i8, DType::q4_0});
}

void add_repack_option(CLI::App& app, std::string& repack) {
  add(app,
      {.flags = "--repack",
       .help =
           "Copy memory-mapped weights to huge pages, which are read faster. always: while loading. auto: "
           "after the first tokens, if half of the free memory is enough. never: processes share the mapped "
           "file",
       .choices = transformed(kRepacks, [](Repack repack) { return std::string(repack_name(repack)); })},
      repack);
}

Repack chosen_repack(const std::string& name) {
  check_choice("--repack", name,
               transformed(kRepacks, [](Repack repack) { return std::string(repack_name(repack)); }));
  return parse_repack(name);
}

DType parse_dtype(const std::string& flag, const std::string& name) {
  return parse_dtype(flag, name, {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_0});
}

void require_argument(const std::string& value, const std::string& what, const std::string& command) {
  if (value.empty())
    fail_usage("{} is missing: gpt {} {} ...; see gpt {} --help", what, command, what,
               command.substr(0, command.find(' ')));
  const std::filesystem::path path = value;
  if (path.filename() != "config.json" || path_kind(value) != PathKind::file) return;
  const std::string folder = path.parent_path().empty() ? "." : path.parent_path().string();
  fail_usage("{} is the configuration of a model; name its folder, {}", value, folder);
}

void require_tokenizer(const std::string& spec) {
  if (spec == "byte" || spec == "char" || path_exists(spec)) return;
  fail_not_found(
      "cannot open the tokenizer {}: no such file or folder; use byte or char, or train a BPE tokenizer with "
      "gpt tokenizer train FILE -o tok and use --tokenizer tok",
      spec.substr(0, 256));
}

std::unique_ptr<Tokenizer> chosen_tokenizer(const std::string& spec) {
  if (spec.empty()) fail_usage("--tokenizer is missing: name a tokenizer.json, a model folder, or byte");
  require_whole_tokenizer(spec);
  return named_tokenizer(spec);
}

std::unique_ptr<Tokenizer> chosen_tokenizer(const LoadedModel& loaded, const std::string& spec) {
  if (!spec.empty()) require_whole_tokenizer(spec);
  return model_tokenizer(loaded, spec);
}

std::vector<std::string> use_command(const std::string& model, const std::string& adapter) {
  std::vector<std::string> words = use_command(model);
  if (!chat_template_of({adapter}).empty()) words = {"gpt", "chat", model};
  words.insert(words.begin() + 3, {"--adapter", adapter});
  return words;
}

std::vector<std::string> use_command(const std::string& model) {
  constexpr const char* kPrompt = "Once upon a time";
  if (is_adapter(model)) {
    const std::string base = adapter_facts(model).base;
    return !base.empty() && path_exists(base) ? use_command(base, model)
                                              : std::vector<std::string>{"gpt", "info", model};
  }
  std::vector<std::string> words = {"gpt", "generate", model};
  try {
    const LoadedModel loaded(model, std::nullopt, MatrixOrder::as_stored);
    if (path_exists(loaded.folder() + "/" + kTaskFile)) return {"gpt", "classify", model, "--text", kPrompt};
    if (has_chat_template(loaded)) return {"gpt", "chat", model};
    const auto tokenizer = model_tokenizer(loaded, "");
    if (tokenizer != nullptr && !tokenizer->encode(kPrompt).empty()) words.emplace_back(kPrompt);
  } catch (const Error&) {  // the command then has no prompt
  }
  return words;
}

}  // namespace gpt

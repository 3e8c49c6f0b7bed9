#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/thread_pool.h"
#include "data/text_blocks.h"
#include "kernels/backend.h"
#include "model/json_value.h"
#include "model/model_files.h"
#include "model/weight_pages.h"
#include "report/next_step.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpt {

// Facts about an option that CLI11 does not store.
struct OptionSpec {
  std::vector<std::string> choices = {};  // known values, for completion
  bool is_config_key = false;             // the command itself applies the value, in the order of precedence
};
// Returns the facts about an option, which the caller may change.
OptionSpec& spec_of(const CLI::Option& option);

// Returns the name of a setting's value in help texts: N, X, PATTERN or its choices as a|b|c.
std::string value_name(const KeyInfo& key);
// Returns the help text of a setting with its default.
std::string help_with_default(const KeyInfo& key, const std::string& fallback);

// Options for threads and device, which several commands share.
struct MachineOptions {
  int64_t threads = 0;  // 0: one per CPU
  std::string device = "cpu";
};
void add_machine_options(CLI::App& app, MachineOptions& options);
void add_json_option(CLI::App& app, bool& json);

// Adds a subcommand. main reports arguments that the parser does not recognize, with suggestions.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help,
                      const std::string& footer = "");

// Add an option and the name of its value in the help. add_shown also shows the default value.
template <class App, class T>
CLI::Option* add_value(App& app, const char* names, T& value, const char* type, const std::string& help) {
  return app.add_option(names, value, help)->type_name(type);
}
template <class App, class T>
CLI::Option* add_shown(App& app, const char* names, T& value, const char* type, const std::string& help) {
  return app.add_option(names, value, help)->type_name(type)->capture_default_str();
}

// Adds the flag of a setting, with its help, default and choices.
template <class App, class T>
CLI::Option* add_key(App& app, const Key& key, T& value) {
  const KeyInfo info = key_info(key, value);
  const std::string help = help_with_default(info, info.shown_default()), flag = flag_of(info.name);
  if constexpr (std::is_same_v<T, bool>) {
    return app.add_flag(flag, value, help);
  } else {
    CLI::Option* option = app.add_option(flag, value, help)->type_name(value_name(info));
    spec_of(*option).choices = info.choices;
    return option;
  }
}

// Adds an option that takes one value each time it is given, and can be repeated.
CLI::Option* add_repeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                          const std::string& help);

// Adds --include and --exclude, which select the files of folders.
void add_filter_options(CLI::App& app, FolderFilter& filter);

// Returns the instruction set named by GPT_ISA, or the best one that the CPU supports. Throws
// invalid_argument.
Isa chosen_isa();
// Returns the number of threads to use. Throws invalid_argument for a device that this build lacks, or for
// too many threads.
int chosen_threads(const MachineOptions& options);

// The threads and kernels of a command that computes.
struct Machine {
  explicit Machine(const MachineOptions& options);
  ThreadPool pool;
  Backend backend;
};

std::string lower_case(std::string text);

// Throws invalid_argument with a suggestion unless `value` is one of `allowed`.
void check_choice(const std::string& flag, const std::string& value, const std::vector<std::string>& allowed);

// Throws invalid_argument unless the value of a flag is between `low` and `high`.
void check_range(const char* flag, int64_t value, int64_t low, int64_t high);

// Returns the quantized dtype that a name of ggml or llama.cpp means, for example q4_k for Q4_K_M; "" for
// other names.
std::string quant_type_of(const std::string& given);
std::vector<std::string> quant_names();  // names of all quantized dtypes

// Returns the dtype that the value of a flag names. Throws invalid_argument with a suggestion unless it is
// one of `allowed`.
DType parse_dtype(const std::string& flag, const std::string& name, std::initializer_list<DType> allowed);
// Returns the dtype of the weights in matmuls: fp32, bf16, fp16, q8_0 or q4_0.
DType parse_dtype(const std::string& flag, const std::string& name);
// Returns the dtype of the KV cache that --kv-dtype names. Without a name, returns the default for the dtype
// of the weights.
DType parse_kv_dtype(const std::string& name, DType weights);

void add_repack_option(CLI::App& app, std::string& repack);
Repack chosen_repack(const std::string& name);  // throws invalid_argument with a suggestion

// Throws invalid_argument if a positional argument is missing.
void require_argument(const std::string& value, const std::string& what, const std::string& command);

// Throws Error with a suggestion if `name` is neither an existing path nor a preset.
void require_model_or_preset(const std::string& name);

// Throws Error if `spec` names a tokenizer that does not exist. "byte" and "char" are always valid.
void require_tokenizer(const std::string& spec);
// Throws Error if the tokenizer does not exist, or if `spec` is "char", which needs a training text.
void require_whole_tokenizer(const std::string& spec);

// Return the tokenizer that --tokenizer names, or the one that belongs to the model (chat/model_text.h).
// Throw if `spec` is "char" or names a tokenizer that does not exist.
std::unique_ptr<Tokenizer> chosen_tokenizer(const std::string& spec);
std::unique_ptr<Tokenizer> chosen_tokenizer(const LoadedModel& loaded, const std::string& spec);

// Returns the command that uses a run or model, for write_next: gpt classify for a model with a head, gpt
// chat for a model with a chat template, else gpt generate. The prompt is omitted if the tokenizer cannot
// encode the default prompt. For an adapter, returns the command that uses it with its base model, or gpt
// info if the base model no longer exists.
std::vector<std::string> use_command(const std::string& model);
// Returns the command that uses a model with an adapter.
std::vector<std::string> use_command(const std::string& model, const std::string& adapter);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/text_blocks.h"
#include "kernels/backend.h"
#include "model/model_files.h"
#include "model/weight_pages.h"
#include "option_spec.h"
#include "report/next_step.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace gpt {

// Names of options in nanoGPT, nanochat, transformers and llama.cpp.
inline constexpr const char* kOutAliases = "--out-dir|--output-dir|--output|--outfile";
inline constexpr const char* kForceAliases = "--overwrite";
inline constexpr const char* kTemplateAliases = "--chat-template";
inline constexpr const char* kSpecialAliases = "--parse-special";
inline constexpr const char* kMaxTokensAliases = "--max-new-tokens|--n-predict|--predict|--num-tokens";

// Adds -m, --model, which is also the first argument, with the given name.
template <class T>
CLI::Option* add_model_option(CLI::App& app, T& model, const std::string& help,
                              ValueKind kind = ValueKind::model, const std::string& argument = "MODEL") {
  return add(app,
             {.flags = "-m,--model," + argument,
              .value = "MODEL",
              .help = help,
              .kind = kind,
              .aliases = "--model-name-or-path|--checkpoint"},
             model);
}
void add_preset_option(CLI::App& app, std::string& preset, const std::string& fallback = "");
void add_config_option(CLI::App& app, std::string& file);
// Adds --out and --resume of a command that trains.
void add_run_options(CLI::App& app, std::string& out, const std::string& help, bool& resume);
void add_tokenizer_option(CLI::App& app, std::string& tokenizer, const std::string& flags = "--tokenizer",
                          const std::string& fallback = "the model's tokenizer");

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

// Adds --field, the text field of .jsonl files.
void add_field_option(CLI::App& app, std::string& field, const std::string& fallback = "");

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
std::vector<std::string> quant_names();    // names of all quantized dtypes
std::vector<std::string> matmul_dtypes();  // names of the dtypes of weights in matmuls
OptionSpec dtype_option();                 // --dtype, the dtype of the weights in matmuls
OptionSpec kv_dtype_option();              // --kv-dtype, the dtype of the KV cache

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

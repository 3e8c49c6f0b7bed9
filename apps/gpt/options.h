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
#include "text/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpt {

// Options that several commands share.
struct MachineOptions {
  int64_t threads = 0;  // 0: all CPUs
  std::string device = "cpu";
};
void add_machine_options(CLI::App& app, MachineOptions& options);
void add_json_option(CLI::App& app, bool& json);

// Adds a subcommand. What the parser has no place for is left to main, which says what was meant.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help,
                      const std::string& footer = "");

// An option, with what its value is called in the help; add_shown: and what it is when it is not given.
template <class App, class T>
CLI::Option* add_value(App& app, const char* names, T& value, const char* type, const std::string& help) {
  return app.add_option(names, value, help)->type_name(type);
}
template <class App, class T>
CLI::Option* add_shown(App& app, const char* names, T& value, const char* type, const std::string& help) {
  return app.add_option(names, value, help)->type_name(type)->capture_default_str();
}

// An option that takes one value each time it is given, and may be given several times.
CLI::Option* add_repeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                          const std::string& help);

// --include and --exclude, for the files of folders.
void add_filter_options(CLI::App& app, FolderFilter& filter);

// The instruction set that GPT_ISA names, else the widest one. Throws invalid_argument.
Isa chosen_isa();
// Throws invalid_argument for a device that this build lacks or an absurd number of threads.
int chosen_threads(const MachineOptions& options);

// What a computing command needs: threads and kernels.
struct Machine {
  explicit Machine(const MachineOptions& options);
  ThreadPool pool;
  Backend backend;
};

std::string lower_case(std::string text);

// Throws invalid_argument with a suggestion unless `value` is one of `allowed`.
void check_choice(const std::string& flag, const std::string& value, const std::vector<std::string>& allowed);

// Throws invalid_argument unless the value of a flag is in this range.
void check_range(const char* flag, int64_t value, int64_t low, int64_t high);

// The type of blocks that a name means as ggml or llama.cpp writes it: q4_k of Q4_K_M; "" if it is none.
std::string quant_type_of(const std::string& given);
std::vector<std::string> quant_names();  // of all these types

// The type that a flag names, one of those allowed; throws invalid_argument with a suggestion.
DType parse_dtype(const std::string& flag, const std::string& name, std::initializer_list<DType> allowed);
// The type of products with weights that a flag names: fp32, bf16, fp16, q8_0 or q4_0.
DType parse_dtype(const std::string& flag, const std::string& name);
// The type of cached keys and values that --kv-dtype names, or without a name the one that goes with weights.
DType parse_kv_dtype(const std::string& name, DType weights);

void add_repack_option(CLI::App& app, std::string& repack);
Repack chosen_repack(const std::string& name);  // throws invalid_argument with a suggestion

// A positional argument that must be there.
void require_argument(const std::string& value, const std::string& what, const std::string& command);

// Throws, with a suggestion, where `name` is neither a file or folder nor a preset.
void require_model_or_preset(const std::string& name);

// Throws Error where `spec` names no tokenizer that is there: byte and char are always.
void require_tokenizer(const std::string& spec);
// The same, and for char, which needs a text.
void require_whole_tokenizer(const std::string& spec);

// The tokenizer that --tokenizer names, or that a model is used with (chat/model_text.h). Throw where `spec`
// is char, or names none that is there.
std::unique_ptr<Tokenizer> chosen_tokenizer(const std::string& spec);
std::unique_ptr<Tokenizer> chosen_tokenizer(const LoadedModel& loaded, const std::string& spec);

// The command that uses a run or model, for write_next: gpt classify for a head, gpt chat for a chat
// template, else gpt generate, without a prompt if the model's tokenizer lacks a character of the usual one.
// An adapter is used on the model it was made for; gpt info shows it if that model is no longer there.
std::vector<std::string> use_command(const std::string& model);
// The command that uses a model with an adapter.
std::vector<std::string> use_command(const std::string& model, const std::string& adapter);

}  // namespace gpt

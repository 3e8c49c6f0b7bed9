#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/suggest.h"
#include "convert/gguf_vocab.h"
#include "data/corpus.h"
#include "model/inference.h"

namespace gpt {
namespace {

constexpr int64_t kMaxThreads = 1024;

}  // namespace

void add_machine_options(CLI::App& app, MachineOptions& options) {
  app.add_option("-t,--threads", options.threads, "CPU threads; 0: all CPUs")
      ->type_name("N")
      ->group("machine");
  app.add_option("--device", options.device, "where to compute: cpu")
      ->type_name("cpu|cuda")
      ->group("machine");
}

void add_json_option(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "write JSON to standard output");
}

CLI::Option* add_repeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                          const std::string& help) {
  return app.add_option(name, values, help)->allow_extra_args(false);
}

Isa chosen_isa() {
  const char* name = std::getenv("GPT_ISA");
  return name == nullptr || *name == '\0' ? best_isa() : parse_isa(name);
}

int chosen_threads(const MachineOptions& options) {
  check_choice("--device", options.device, {"cpu", "cuda"});
  if (options.device == "cuda")
    fail_usage("--device cuda: this build runs on the CPU only; leave the flag out");
  if (options.threads < 0 || options.threads > kMaxThreads) {
    fail_usage("--threads: expected 0 (all CPUs) to {}, found {}", kMaxThreads, options.threads);
  }
  return options.threads == 0 ? available_cpus() : static_cast<int>(options.threads);
}

Machine::Machine(const MachineOptions& options)
    : pool(chosen_threads(options)), kernels(kernel_table(chosen_isa())) {}

void check_choice(const std::string& flag, const std::string& value,
                  const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  fail_usage("{}: expected {}, found \"{}\"{}", flag, fmt::join(allowed, " or "), value.substr(0, 64),
             did_you_mean(value, allowed));
}

DType parse_dtype(const std::string& flag, const std::string& name, std::initializer_list<DType> allowed) {
  std::vector<std::string> names;
  for (const DType t : allowed) {
    if (name == dtype_name(t)) return t;
    names.emplace_back(dtype_name(t));
  }
  check_choice(flag, name, names);
  return DType::f32;
}

DType parse_kv_dtype(const std::string& name, DType weights) {
  if (name.empty()) return inference_types(weights).cache;
  return parse_dtype("--kv-dtype", name, {DType::f32, DType::bf16, DType::f16, DType::i8});
}

DType parse_dtype(const std::string& flag, const std::string& name) {
  return parse_dtype(flag, name, {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_0});
}

void require_argument(const std::string& value, const std::string& what, const std::string& command) {
  if (value.empty())
    fail_usage("{} is missing: gpt {} {} ...; see gpt {} --help", what, command, what, command);
}

std::unique_ptr<Tokenizer> named_tokenizer(const std::string& spec) {
  return spec.ends_with(".gguf") ? gguf_tokenizer(spec) : open_tokenizer(spec, {});
}

std::unique_ptr<Tokenizer> model_tokenizer(const LoadedModel& loaded, const std::string& spec) {
  std::unique_ptr<Tokenizer> tokenizer;
  const std::string folder = loaded.folder().empty() ? "." : loaded.folder();
  if (spec == "char")
    fail_usage("--tokenizer char: its characters are those of a training text; name a tokenizer.json");
  if (!spec.empty()) {
    tokenizer = named_tokenizer(spec);
  } else if (loaded.gguf() != nullptr) {
    const auto vocab = gguf_vocab(*loaded.gguf());
    if (!vocab) return nullptr;
    tokenizer = tokenizer_of(*vocab, loaded.gguf()->path());
  } else if (has_tokenizer(folder)) {
    tokenizer = load_tokenizer(folder);
  } else {
    return nullptr;
  }
  const int64_t model_vocab = loaded.model().config.vocab_size;
  if (tokenizer->vocab_size() > model_vocab) {
    fail("the tokenizer has {} tokens, but the model's vocabulary has only {}; they do not belong together",
         tokenizer->vocab_size(), model_vocab);
  }
  return tokenizer;
}

}  // namespace gpt

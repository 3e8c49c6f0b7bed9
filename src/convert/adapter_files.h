#pragma once

#include <memory>
#include <string>

#include "model/adapter_settings.h"
#include "model/model_files.h"

namespace gpt {

enum class AdapterFormat : uint8_t {
  peft,  // a folder with adapter_config.json and adapter_model.safetensors
  gguf   // a GGUF file of general.type "adapter"
};

// The names of the files in an adapter's folder.
inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterTensors = "adapter_model.safetensors";

// Returns the folder with the files of an adapter: best/ or last/ of a run if it contains an adapter, else
// the path itself.
std::string adapter_folder(const std::string& path);

// Returns true if a path is an adapter: the folder of an adapter, a run with an adapter in best/ or last/, or
// a GGUF adapter file.
bool is_adapter(const std::string& path);

// An adapter that was loaded for a model.
struct LoadedAdapter {
  std::shared_ptr<const Adapter> adapter;
  AdapterSettings settings;
  AdapterFormat format = AdapterFormat::peft;
  std::string base;  // name of the base model in the adapter's file; may be ""
};
// Throws Error for an unsupported setting that changes results, for a tensor or a shape that does not fit the
// model, and for non-finite values. The values are stored in memory of `device`, or of the host if `device`
// is null.
LoadedAdapter load_adapter(const std::string& path, const Model& model, Device* device = nullptr);

// Facts about an adapter that do not require a model. `gpt info` shows them.
struct AdapterFacts {
  AdapterSettings settings;
  AdapterFormat format = AdapterFormat::peft;
  std::string base, architecture;  // architecture is set for GGUF only
  int64_t matrices = 0, parameters = 0;
};
AdapterFacts adapter_facts(const std::string& path);

// The value of --adapter: "DIR" or "DIR=SCALE".
struct AdapterChoice {
  std::string path;
  double scale = 1;
};
AdapterChoice parse_adapter(const std::string& text);
// Loads adapters for a model and returns their sum. Returns null if there are none.
std::shared_ptr<const Adapter> load_adapters(const std::vector<std::string>& choices, const Model& model,
                                             Device* device = nullptr);

// Returns the path of the chat template that was saved with an adapter. Returns the first one if several
// adapters have a chat template, and "" if none has one.
std::string chat_template_of(const std::vector<std::string>& adapters);

// Writes an adapter to an existing folder in the format of PEFT. `base` is the name of the base model.
void write_adapter(const std::string& folder, const Model& model, const Adapter& adapter,
                   const AdapterSettings& settings, const std::string& base);
// Writes an adapter as a GGUF file, which llama.cpp can load together with the GGUF file of the same model.
// Throws Error if GGUF cannot store the model.
void write_adapter_gguf(const std::string& path, const Model& model, const Adapter& adapter,
                        const std::string& name);

}  // namespace gpt

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

// The names of files in an adapter's folder.
inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterTensors = "adapter_model.safetensors";

// Where the files of an adapter lie: its folder, or last/ of a run that has one there.
std::string adapter_folder(const std::string& path);

// Whether a path is an adapter's: such a folder, the folder of a run that has one in last/, or such a file.
bool is_adapter(const std::string& path);

// An adapter read from disk, for a model.
struct LoadedAdapter {
  std::shared_ptr<const Adapter> adapter;
  AdapterSettings settings;
  AdapterFormat format = AdapterFormat::peft;
  std::string base;  // the model that it was made for, as its file has it; "" where that does not say
};
// Throws Error for a setting that changes results and is not known here, a tensor or a shape that does not
// fit the model, and numbers that are not finite. The numbers lie in `memory`, null: the host's.
LoadedAdapter load_adapter(const std::string& path, const Model& model, Device* device = nullptr);

// The same without a model: what `gpt info` says of it.
struct AdapterFacts {
  AdapterSettings settings;
  AdapterFormat format = AdapterFormat::peft;
  std::string base, architecture;  // GGUF's
  int64_t matrices = 0, parameters = 0;
};
AdapterFacts adapter_facts(const std::string& path);

// "DIR" or "DIR=SCALE", as --adapter takes it.
struct AdapterChoice {
  std::string path;
  double scale = 1;
};
AdapterChoice parse_adapter(const std::string& text);
// All of them for a model, added; null when there is none.
std::shared_ptr<const Adapter> load_adapters(const std::vector<std::string>& choices, const Model& model,
                                             Device* device = nullptr);

// The file with the chat template that was saved with one of them, the first that has one; "" where none has.
std::string chat_template_of(const std::vector<std::string>& adapters);

// Writes an adapter into an existing folder, as PEFT loads it. base: the model that it belongs to.
void write_adapter(const std::string& folder, const Model& model, const Adapter& adapter,
                   const AdapterSettings& settings, const std::string& base);
// Writes a GGUF file that llama.cpp loads beside the same model. Throws Error where GGUF has no such model.
void write_adapter_gguf(const std::string& path, const Model& model, const Adapter& adapter,
                        const std::string& name);

}  // namespace gpt

#pragma once

#include <memory>
#include <string>

#include "io/gguf.h"
#include "io/tensor_file.h"
#include "model/config.h"
#include "model/model_files.h"

namespace gpt {

// The open files of a model, before their tensors are matched with the parameters of an architecture.
struct ModelSource {
  std::string path;    // path in error messages
  std::string folder;  // folder that may contain a tokenizer
  std::string config_path;
  std::unique_ptr<TensorFiles> tensors;
  ModelConfig config;
  const Naming* naming = nullptr;  // set if the file format allows only one naming
  const GgufFile* gguf = nullptr;  // the GGUF file, if the model is a GGUF file
};

// Opens the files of a model for LoadedModel and reads its config. The config comes from config.json or from
// the file itself. If there is no config, it is derived from the tensor shapes and the hints. Throws Error if
// the files cannot be read or disagree with each other or the hints.
ModelSource open_model_source(const std::string& path, const ShapeHints& hints);

// Returns the completed config of the model that LoadedModel would load for a MODEL argument. Does not read
// the weights.
ModelConfig config_of_model(const std::string& path);

}  // namespace gpt

#pragma once

#include <memory>
#include <string>

#include "io/gguf.h"
#include "io/tensor_file.h"
#include "model/config.h"
#include "model/model_files.h"

namespace gpt {

// The files of a model, opened but not yet matched with the parameters of an architecture.
struct ModelSource {
  std::string path;    // as errors name it
  std::string folder;  // where a tokenizer would be
  std::string config_path;
  std::unique_ptr<TensorFiles> tensors;
  ModelConfig config;
  const Naming* naming = nullptr;  // where the kind of file leaves no choice
  const GgufFile* gguf = nullptr;  // the only file, when it is one
};

// Opens what LoadedModel takes and reads its config: config.json, or what the file itself says, or where it
// says nothing the shapes of its tensors and the hints. Throws Error, also when these disagree.
ModelSource open_model_source(const std::string& path, const ShapeHints& hints);

// The complete config of the model that LoadedModel would load from a MODEL argument, whose weights are not
// read.
ModelConfig config_of_model(const std::string& path);

}  // namespace gpt

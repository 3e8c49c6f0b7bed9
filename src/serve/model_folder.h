#pragma once

#include <functional>
#include <string>

#include "serve/served_model.h"

namespace gpt::serve {

// What clients may have loaded and unloaded: models and adapters of one folder, by the names of their folders
// and files.
struct ModelFolder {
  std::string path = {};  // "": nothing
  int64_t most = 4;       // models that are loaded at once
  std::function<ServedModelOptions(const std::string& name, const std::string& path)> options = {};
};

// The folder or file with that name, or NAME.gguf. Throws ApiError: 403 where the server has no folder, 404
// where that has none of the name, 400 for what is no plain name, with `field`.
std::string path_in(const ModelFolder& folder, const std::string& name, const char* field);

}  // namespace gpt::serve

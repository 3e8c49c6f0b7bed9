#pragma once

#include <functional>
#include <string>

#include "serve/served_model.h"

namespace gpt::serve {

// The models and adapters that clients may load and unload: the contents of one folder, identified by their
// file or folder names.
struct ModelFolder {
  std::string path = {};  // "": clients may not load anything
  int64_t most = 4;       // maximum number of models loaded at the same time
  std::function<ServedModelOptions(const std::string& name, const std::string& path)> options = {};
};

// Returns the path of `name` or NAME.gguf in the folder. Throws ApiError: 403 if the server has no folder,
// 404 if the folder does not contain the name, 400 if the name is not a plain file name. `field` is the
// request field to name in the error.
std::string path_in(const ModelFolder& folder, const std::string& name, const char* field);

}  // namespace gpt::serve

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_file.h"

namespace gpt {

// The tensors of a model, in one file or in shards. Move-only; the tensors live as long as it does.
class TensorFiles {
 public:
  explicit TensorFiles(std::vector<std::unique_ptr<TensorFile>> files);

  // File by file, in the order of their data; no name occurs twice. Unsupported types are left out.
  const std::vector<const TensorInfo*>& tensors() const { return tensors_; }
  // nullptr when there is no such tensor; throws Error when it has an unsupported type.
  const TensorInfo* find(std::string_view name) const;
  // Shards in the order of their names.
  const std::vector<std::unique_ptr<TensorFile>>& files() const { return files_; }

 private:
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::vector<const TensorInfo*> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_
};

// Opens a .safetensors file, a file of torch.save, the .index.json of shards of either, or a folder that has
// a model.safetensors, model.safetensors.index.json, pytorch_model.bin or pytorch_model.bin.index.json (the
// first of these wins, as in transformers). File names in an index are untrusted: they must lie in the
// index's own folder. Throws Error for a missing shard, a tensor that is not in the shard the index names, a
// name that occurs in two shards, and all that SafetensorsFile and TorchFile reject.
TensorFiles open_tensors(const std::string& path);

// Tensor names per shard as the text of an index has them, checked as above. `kind`: what shard names end in;
// `what` names the index in errors.
std::map<std::string, std::vector<std::string>> parse_shard_index(std::string_view text,
                                                                  std::string_view kind,
                                                                  const std::string& what);

}  // namespace gpt

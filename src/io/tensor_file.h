#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_info.h"

namespace gpt {

class MappedFile;

// A tensor of a type that its format knows and this program does not compute with.
struct UnsupportedTensor {
  std::string name;
  std::string dtype;  // as in the file: "BOOL", "F8_E4M3", ...
  Shape shape;
};

// An open file of named tensors, whatever its format.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(TensorFile&&) = default;  // tensors stay where they are
  TensorFile& operator=(TensorFile&&) = default;

  const std::string& path() const { return path_; }
  // No name occurs twice. Tensors of a type that this program does not have are left out.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<UnsupportedTensor>& unsupported() const { return unsupported_; }  // by name
  // nullptr when there is no such tensor; throws Error when it was left out.
  const TensorInfo* find(std::string_view name) const;
  bool has(std::string_view name) const { return by_name_.contains(name); }  // also one that was left out
  // The file that the bytes of tensors lie in, unless they were converted; null: they are other memory.
  virtual const MappedFile* mapped() const { return nullptr; }

 protected:
  // expected: ends the message about a tensor that was left out.
  explicit TensorFile(std::string path, std::string_view expected = "")
      : path_(std::move(path)), expected_(expected) {}
  // To be called once with all tensors, in the order of the format. Throws Error if a name occurs twice.
  void set_tensors(std::vector<TensorInfo> tensors, std::vector<UnsupportedTensor> unsupported = {});

 private:
  std::string path_;
  std::string_view expected_;
  std::vector<TensorInfo> tensors_;
  std::vector<UnsupportedTensor> unsupported_;
  std::map<std::string_view, const TensorInfo*> by_name_;  // null: one that was left out
};

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
  std::map<std::string_view, const TensorFile*> homes_;  // of each tensor
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

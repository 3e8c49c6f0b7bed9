#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_info.h"

namespace gpt {

class MappedFile;

// A tensor with a dtype that the file format defines but this program does not support.
struct UnsupportedTensor {
  std::string name;
  std::string dtype;  // name of the dtype in the file: "BOOL", "F8_E4M3", ...
  Shape shape;
};

// The common interface of open tensor files in all formats.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(TensorFile&&) = default;  // the TensorInfo objects keep their addresses
  TensorFile& operator=(TensorFile&&) = default;

  const std::string& path() const { return path_; }
  // Returns the tensors with supported dtypes. Names are unique.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<UnsupportedTensor>& unsupported() const { return unsupported_; }  // sorted by name
  // Returns nullptr if the file has no such tensor. Throws Error if the tensor has an unsupported dtype.
  const TensorInfo* find(std::string_view name) const;
  bool has(std::string_view name) const { return by_name_.contains(name); }  // includes unsupported tensors
  // Returns the memory-mapped file that contains the tensor data, except for tensors that were converted.
  // Returns nullptr if the data is in other memory.
  virtual const MappedFile* mapped() const { return nullptr; }

 protected:
  // `expected` lists the supported dtypes. Error messages about unsupported tensors end with this list.
  explicit TensorFile(std::string path, std::string_view expected = "")
      : path_(std::move(path)), expected_(expected) {}
  // Must be called once with all tensors in file order. Throws Error if a name occurs twice.
  void set_tensors(std::vector<TensorInfo> tensors, std::vector<UnsupportedTensor> unsupported = {});

 private:
  std::string path_;
  std::string_view expected_;
  std::vector<TensorInfo> tensors_;
  std::vector<UnsupportedTensor> unsupported_;
  std::map<std::string_view, const TensorInfo*> by_name_;  // nullptr for unsupported tensors
};

// The tensors of a model, stored in one file or in shards. Move-only. The tensors are valid as long as this
// object exists.
class TensorFiles {
 public:
  explicit TensorFiles(std::vector<std::unique_ptr<TensorFile>> files);

  // Returns the tensors with supported dtypes, file by file and in data order. Names are unique.
  const std::vector<const TensorInfo*>& tensors() const { return tensors_; }
  // Returns nullptr if no file has such a tensor. Throws Error if the tensor has an unsupported dtype.
  const TensorInfo* find(std::string_view name) const;
  // Returns the files; shards are sorted by name.
  const std::vector<std::unique_ptr<TensorFile>>& files() const { return files_; }

 private:
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::vector<const TensorInfo*> tensors_;
  std::map<std::string_view, const TensorFile*> homes_;  // the file of each tensor
};

// Opens the tensors of a model. `path` may be a .safetensors file, a torch.save file, the .index.json of
// shards in either format, or a folder. In a folder, the first of these files is opened, in the order that
// transformers uses: model.safetensors, model.safetensors.index.json, pytorch_model.bin,
// pytorch_model.bin.index.json. File names in an index are untrusted and must name files in the folder of the
// index. Throws Error if a shard is missing, if a tensor is not in the shard that the index names, if a name
// occurs in two shards, or if SafetensorsFile or TorchFile rejects a file.
TensorFiles open_tensors(const std::string& path);

// Parses the text of a shard index into the tensor names of each shard and checks the file names. `kind` is
// the required suffix of shard names; `what` names the index in error messages.
std::map<std::string, std::vector<std::string>> parse_shard_index(std::string_view text,
                                                                  std::string_view kind,
                                                                  const std::string& what);

}  // namespace gpt

#include "io/tensor_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "io/safetensors.h"
#include "io/sorted_index.h"
#include "io/torch_file.h"

namespace gpt {
namespace {

std::string_view name_of(const TensorInfo& tensor) {
  return tensor.name;
}

namespace fs = std::filesystem;

constexpr size_t kMaxShards = 4096;  // each is a mapping, and the system has a limit on those
constexpr uint64_t kMaxIndexBytes = uint64_t{32} << 20;
constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kTorch = ".bin";
// What a folder is searched for; each may be in shards.
constexpr const char* kNames[] = {"model.safetensors", "pytorch_model.bin"};

std::string_view pointed_name(const TensorInfo* tensor) {
  return tensor->name;
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

void check_shard_name(const std::string& name, std::string_view kind, const std::string& index) {
  const bool plain = !name.empty() && name.size() <= 255 && name.front() != '.' &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain || !name.ends_with(kind)) {
    fail("{}: expected the name of a {} file in the same folder, found {}", index, kind, printable(name));
  }
}

// Also when it is of an unsupported type.
bool holds(const TensorFile& file, const std::string& name) {
  try {
    return file.find(name) != nullptr;
  } catch (const Error&) {
    return true;
  }
}

std::unique_ptr<TensorFile> open_file(const std::string& path) {
  if (path.ends_with(kSafetensors)) return std::make_unique<SafetensorsFile>(path);
  return std::make_unique<TorchFile>(path);
}

TensorFiles open_shards(const std::string& index) {
  const fs::path folder = fs::path(index).parent_path();
  const bool torch = index.ends_with(std::string(kTorch) + std::string(kIndexSuffix));
  std::vector<std::unique_ptr<TensorFile>> files;
  for (const auto& [shard, names] :
       parse_shard_index(read_file(index, kMaxIndexBytes), torch ? kTorch : kSafetensors, index)) {
    const std::string path = (folder / shard).string();
    if (!exists(path)) fail("{} is missing: {} says that {} tensors are in it", path, index, names.size());
    files.push_back(open_file(path));
    for (const std::string& name : names) {
      if (!holds(*files.back(), name))
        fail("{}: expected the tensor {} in {}, found none", index, printable(name), path);
    }
  }
  return TensorFiles(std::move(files));
}

TensorFiles open_single(const std::string& path) {
  std::vector<std::unique_ptr<TensorFile>> files;
  files.push_back(open_file(path));
  return TensorFiles(std::move(files));
}

}  // namespace

void TensorFile::set_tensors(std::vector<TensorInfo> tensors, std::vector<UnsupportedTensor> unsupported) {
  tensors_ = std::move(tensors);
  unsupported_ = std::move(unsupported);
  by_name_ = sorted_index(tensors_, name_of);
  std::ranges::sort(unsupported_, [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto duplicate = [&](const std::string& name) {
    fail("{}: the tensor {} occurs twice", path_, printable(name));
  };
  if (const TensorInfo* tensor = find_duplicate(tensors_, by_name_, name_of)) duplicate(tensor->name);
  for (size_t i = 0; i < unsupported_.size(); ++i) {
    const std::string& name = unsupported_[i].name;
    if (i > 0 && unsupported_[i - 1].name == name) duplicate(name);
    if (find_sorted(tensors_, by_name_, name, name_of) != nullptr) duplicate(name);
  }
}

const TensorInfo* TensorFile::find(std::string_view name) const {
  if (const TensorInfo* tensor = find_sorted(tensors_, by_name_, name, name_of)) return tensor;
  const auto odd = std::ranges::lower_bound(unsupported_, name, {}, &UnsupportedTensor::name);
  if (odd != unsupported_.end() && odd->name == name) {
    fail("{}: tensor {} has the type {}, expected {}", path_, printable(name), odd->dtype, expected_);
  }
  return nullptr;
}

std::map<std::string, std::vector<std::string>> parse_shard_index(std::string_view text,
                                                                  std::string_view kind,
                                                                  const std::string& what) {
  const nlohmann::json root = parse_json(text, what);
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    fail("{}: expected an object \"weight_map\" from tensor names to file names, found none", what);
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : root["weight_map"].items()) {
    if (!file.is_string()) {
      fail("{}: expected a file name for {}, found {}", what, printable(tensor), file.type_name());
    }
    const auto& name = file.get_ref<const std::string&>();
    check_shard_name(name, kind, what);
    shards[name].push_back(tensor);
    if (shards.size() > kMaxShards) fail("{}: expected at most {} files, found more", what, kMaxShards);
  }
  if (shards.empty()) fail("{}: expected at least one tensor in \"weight_map\", found none", what);
  return shards;
}

TensorFiles::TensorFiles(std::vector<std::unique_ptr<TensorFile>> files) : files_(std::move(files)) {
  std::vector<const TensorFile*> home;  // of each tensor
  for (const std::unique_ptr<TensorFile>& file : files_) {
    for (const TensorInfo& tensor : file->tensors()) {
      tensors_.push_back(&tensor);
      home.push_back(file.get());
    }
  }
  by_name_ = sorted_index(tensors_, pointed_name);
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const uint32_t a = by_name_[i - 1];
    const uint32_t b = by_name_[i];
    if (tensors_[a]->name == tensors_[b]->name) {
      fail("the tensor {} occurs twice: in {} and in {}", printable(tensors_[a]->name), home[a]->path(),
           home[b]->path());
    }
  }
}

const TensorInfo* TensorFiles::find(std::string_view name) const {
  if (const auto* tensor = find_sorted(tensors_, by_name_, name, pointed_name)) return *tensor;
  for (const std::unique_ptr<TensorFile>& file : files_)
    file->find(name);  // throws if it is of an unsupported type
  return nullptr;
}

TensorFiles open_tensors(const std::string& path) {
  if (path.ends_with(kIndexSuffix)) return open_shards(path);
  std::error_code error;
  if (!fs::is_directory(path, error)) return open_single(path);
  for (const char* name : kNames) {
    const std::string single = (fs::path(path) / name).string();
    if (exists(single)) return open_single(single);
    const std::string index = single + std::string(kIndexSuffix);
    if (exists(index)) return open_shards(index);
  }
  fail("the folder {} has no model: expected model.safetensors or model.safetensors.index.json in it", path);
}

}  // namespace gpt

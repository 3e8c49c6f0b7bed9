#include "io/tensor_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "io/safetensors.h"
#include "io/torch_file.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

// Maximum number of shards. Every shard is memory-mapped, and the operating system limits the number of
// mappings.
constexpr size_t kMaxShards = 4096;
constexpr uint64_t kMaxIndexBytes = uint64_t{32} << 20;
constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kTorch = ".bin";
// File names that open_tensors looks for in a folder. Both files may also be split into shards.
constexpr const char* kNames[] = {"model.safetensors", "pytorch_model.bin"};

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
    if (!exists(path))
      fail_not_found("{} is missing, but {} lists {} tensors in it", path, index, names.size());
    files.push_back(open_file(path));
    for (const std::string& name : names) {
      if (!files.back()->has(name))
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
  std::ranges::sort(unsupported_, {}, &UnsupportedTensor::name);
  const auto add = [&](const std::string& name, const TensorInfo* tensor) {
    if (!by_name_.emplace(name, tensor).second)
      fail("{}: the tensor {} occurs twice", path_, printable(name));
  };
  for (const TensorInfo& tensor : tensors_)
    add(tensor.name, &tensor);
  for (const UnsupportedTensor& tensor : unsupported_)
    add(tensor.name, nullptr);
}

const TensorInfo* TensorFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return nullptr;
  if (at->second != nullptr) return at->second;
  const auto odd = std::ranges::lower_bound(unsupported_, name, {}, &UnsupportedTensor::name);
  fail("{}: tensor {} has the type {}, expected {}", path_, printable(name), odd->dtype, expected_);
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
  for (const std::unique_ptr<TensorFile>& file : files_) {
    for (const TensorInfo& tensor : file->tensors()) {
      tensors_.push_back(&tensor);
      const auto [home, is_new] = homes_.emplace(tensor.name, file.get());
      if (is_new) continue;
      fail("the tensor {} occurs twice: in {} and in {}", printable(tensor.name), home->second->path(),
           file->path());
    }
  }
}

const TensorInfo* TensorFiles::find(std::string_view name) const {
  if (const auto home = homes_.find(name); home != homes_.end()) return home->second->find(name);
  for (const std::unique_ptr<TensorFile>& file : files_)
    file->find(name);  // throws if the tensor has an unsupported dtype
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

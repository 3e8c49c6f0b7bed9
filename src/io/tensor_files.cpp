#include "io/tensor_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "io/json.h"
#include "io/printable.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxShards = 4096;  // each is a mapping, and the system has a limit on those
constexpr std::string_view kIndexSuffix = ".index.json";

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

void check_shard_name(const std::string& name, const std::string& index) {
  const bool plain = !name.empty() && name.size() <= 255 && name.front() != '.' &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain || !name.ends_with(".safetensors")) {
    fail("{}: expected the name of a .safetensors file in the same folder, found {}", index, printable(name));
  }
}

// Tensor names per shard, as the index has them.
std::map<std::string, std::vector<std::string>> read_index(const std::string& index) {
  const nlohmann::json root = read_json_file(index);
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    fail("{}: expected an object \"weight_map\" from tensor names to file names, found none", index);
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : root["weight_map"].items()) {
    if (!file.is_string()) {
      fail("{}: expected a file name for {}, found {}", index, printable(tensor), file.type_name());
    }
    const auto& name = file.get_ref<const std::string&>();
    check_shard_name(name, index);
    shards[name].push_back(tensor);
    if (shards.size() > kMaxShards) fail("{}: expected at most {} files, found more", index, kMaxShards);
  }
  if (shards.empty()) fail("{}: expected at least one tensor in \"weight_map\", found none", index);
  return shards;
}

bool holds(const SafetensorsFile& file, const std::string& name) {
  const auto& odd = file.unsupported();
  const auto at =
      std::lower_bound(odd.begin(), odd.end(), name,
                       [](const UnsupportedTensor& t, const std::string& n) { return t.name < n; });
  return (at != odd.end() && at->name == name) || file.find(name) != nullptr;
}

TensorFiles open_shards(const std::string& index) {
  const fs::path folder = fs::path(index).parent_path();
  std::vector<SafetensorsFile> files;
  for (const auto& [shard, names] : read_index(index)) {
    const std::string path = (folder / shard).string();
    if (!exists(path)) fail("{} is missing: {} says that {} tensors are in it", path, index, names.size());
    files.emplace_back(path);
    for (const std::string& name : names) {
      if (!holds(files.back(), name))
        fail("{}: expected the tensor {} in {}, found none", index, printable(name), path);
    }
  }
  return TensorFiles(std::move(files));
}

TensorFiles open_single(const std::string& path) {
  std::vector<SafetensorsFile> files;
  files.emplace_back(path);
  return TensorFiles(std::move(files));
}

}  // namespace

TensorFiles::TensorFiles(std::vector<SafetensorsFile> files) : files_(std::move(files)) {
  std::vector<const SafetensorsFile*> home;  // of each tensor
  for (const SafetensorsFile& file : files_) {
    for (const TensorInfo& tensor : file.tensors()) {
      tensors_.push_back(&tensor);
      home.push_back(&file);
    }
  }
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a]->name < tensors_[b]->name; });
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
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t t, std::string_view n) { return tensors_[t]->name < n; });
  if (at != by_name_.end() && tensors_[*at]->name == name) return tensors_[*at];
  for (const SafetensorsFile& file : files_)
    file.find(name);  // throws if it is of an unsupported type
  return nullptr;
}

TensorFiles open_tensors(const std::string& path) {
  if (path.ends_with(kIndexSuffix)) return open_shards(path);
  std::error_code error;
  if (!fs::is_directory(path, error)) return open_single(path);
  const std::string single = (fs::path(path) / "model.safetensors").string();
  if (exists(single)) return open_single(single);
  const std::string index = single + std::string(kIndexSuffix);
  if (exists(index)) return open_shards(index);
  fail("the folder {} has no model: expected model.safetensors or model.safetensors.index.json in it", path);
}

}  // namespace gpt

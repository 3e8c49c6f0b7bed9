// A model folder in the layout of transformers.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/safetensors_writer.h"
#include "kernels/quant.h"
#include "model/model_files.h"
#include "tensor/convert.h"
#include "tensor/memory.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char *kOneFile = "model.safetensors", *kIndexFile = "model.safetensors.index.json";
constexpr const char *kConfigFile = "config.json", *kGenerationFile = "generation_config.json";

uint64_t bytes_of(const NamedTensor& tensor) {
  return static_cast<uint64_t>(checked_size(tensor.shape, tensor.name)) * dtype_size(tensor.dtype);
}

// The tensors of each file, in order.
std::vector<std::vector<NamedTensor>> cut_shards(std::vector<NamedTensor> tensors, uint64_t shard_bytes) {
  std::vector<std::vector<NamedTensor>> shards(1);
  uint64_t filled = 0;
  for (NamedTensor& tensor : tensors) {
    const uint64_t bytes = bytes_of(tensor);
    if (!shards.back().empty() && bytes > shard_bytes - std::min(filled, shard_bytes)) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(size_t i, size_t n) {
  return n == 1 ? kOneFile : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, n);
}

void write_tensors(const std::string& folder, std::vector<NamedTensor> tensors, uint64_t shard_bytes) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  const auto shards = cut_shards(std::move(tensors), shard_bytes);
  if (shards.size() == 1) return write_safetensors(folder + "/" + kOneFile, shards[0], metadata);
  uint64_t total = 0;
  json map = json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_safetensors(fmt::format("{}/{}", folder, name), shards[i], metadata);
    for (const NamedTensor& tensor : shards[i]) {
      map[tensor.name] = name;
      total += bytes_of(tensor);
    }
  }
  const json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_file_atomic(folder + "/" + kIndexFile, index.dump(2) + "\n");
}

// Rows of the parts, as numbers where they are blocks.
void emit_parts(std::vector<TensorView> parts, bool transposed, DType dtype, const EmitBytes& emit) {
  std::vector<std::vector<float>> numbers;
  for (TensorView& part : parts) {
    if (!is_quantized(part.dtype)) continue;
    numbers.emplace_back(static_cast<size_t>(part.size()));
    dequantize_row(part.dtype, HostAccess(part)->data, part.size(), numbers.back().data());
    part = make_view(numbers.back().data(), DType::f32, part.dims());
  }
  emit_matrix(parts, transposed, dtype, emit);
}

}  // namespace

std::vector<NamedTensor> named_weights(const Model& model, std::span<const TensorView> weights,
                                       const Naming& naming, DType dtype) {
  const ModelConfig& c = model.config;
  // Fused tensors are written once, from all of their parts.
  std::vector<NamedTensor> tensors;
  for (int id = 0; id < model.table.model_count(); ++id) {
    const FilePlace place = file_place(naming, c, model.table[id]);
    if (place.first_row > 0) continue;  // a later part of a tensor that is in the list already
    std::vector<TensorView> parts;
    for (int other = id; other < model.table.model_count(); ++other) {
      if (model.table[other].layer != model.table[id].layer) break;
      if (file_place(naming, c, model.table[other]).tensor == place.tensor) {
        parts.push_back(weights[static_cast<size_t>(other)]);
      }
    }
    tensors.push_back({place.tensor, dtype, place.file_shape,
                       [parts, dtype, transposed = place.transposed](const EmitBytes& emit) {
                         emit_parts(parts, transposed, dtype, emit);
                       }});
  }
  return tensors;
}

std::vector<std::string> model_file_names(const Model& model, std::span<const TensorView> weights,
                                          const WriteOptions& options) {
  const Naming& naming = *export_family(model.config).namings[0];
  const auto shards = cut_shards(named_weights(model, weights, naming, options.dtype), options.shard_bytes);
  std::vector<std::string> names = {kConfigFile, kGenerationFile};
  for (size_t i = 0; i < shards.size(); ++i)
    names.push_back(shard_name(i, shards.size()));
  if (shards.size() > 1) names.emplace_back(kIndexFile);
  return names;
}

void write_model(const std::string& folder, const Model& model, std::span<const TensorView> weights,
                 const WriteOptions& options) {
  const ModelConfig& c = model.config;
  const Naming& naming = *export_family(c).namings[0];
  write_tensors(folder, named_weights(model, weights, naming, options.dtype), options.shard_bytes);
  const json config = export_config(c, options.dtype);
  write_file_atomic(folder + "/" + kConfigFile, config.dump(2) + "\n");
  json generation = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (!config[key].is_null()) generation[key] = config[key];
  }
  write_file_atomic(folder + "/" + kGenerationFile, generation.dump(2) + "\n");
}

}  // namespace gpt

#include "model/model_files.h"

#include <cstring>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "io/json.h"
#include "io/llama2c.h"
#include "io/printable.h"
#include "io/safetensors_writer.h"
#include "io/tensor_files.h"
#include "model/json_value.h"
#include "tensor/convert.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

bool ends_with(const std::string& s, std::string_view end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

ModelConfig llama2c_config(const Llama2cHeader& h) {
  ModelConfig c;
  read_model_keys(nlohmann::json::parse(R"({"norm": "rms", "position": "rope", "rope_layout": "interleaved",
      "act": "swiglu", "qkv_bias": false, "out_bias": false, "mlp_bias": false, "norm_eps": 1e-5})"),
                  c);
  c.n_embd = h.dim;
  c.d_ff = h.hidden_dim;
  c.n_layer = h.n_layers;
  c.n_head = h.n_heads;
  c.n_kv_head = h.n_kv_heads;
  c.vocab_size = h.vocab_size;
  c.n_ctx = h.seq_len;
  c.tie_embeddings = h.tied;
  if (c.vocab_size > 2) {  // SentencePiece's convention, which run.c relies on
    c.bos_token_id = 1;
    c.eos_token_ids = {2};
  }
  return c;
}

}  // namespace

struct LoadedModel::Sources {
  std::unique_ptr<TensorFiles> safetensors;
  std::unique_ptr<Llama2cFile> llama2c;
  bool prefix_missing = false;  // see detect_naming
  std::string path;

  const TensorInfo* find(std::string name) const {
    if (prefix_missing && name.rfind("transformer.", 0) == 0) name = name.substr(12);
    return safetensors ? safetensors->find(name) : llama2c->find(name);
  }
};

std::string resolve_model_path(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) fail("cannot find the model {}: no such file or folder", path);
  const fs::path last = fs::path(path) / "last";
  return fs::is_directory(last, ignored) ? last.string() : path;
}

LoadedModel::~LoadedModel() = default;

LoadedModel::LoadedModel(const std::string& given, DType dtype) : sources_(std::make_unique<Sources>()) {
  const std::string path = resolve_model_path(given);
  sources_->path = path;
  if (ends_with(path, ".bin")) {
    load_llama2c(path);
  } else {
    load_safetensors(path);
  }
  map_weights(dtype);
}

void LoadedModel::load_llama2c(const std::string& path) {
  folder_ = fs::path(path).parent_path().string();
  sources_->llama2c = std::make_unique<Llama2cFile>(path);
  try {
    model_ = std::make_unique<Model>(llama2c_config(sources_->llama2c->header()));
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
  naming_ = Naming::llama2c;
}

void LoadedModel::load_safetensors(const std::string& path) {
  folder_ = fs::is_directory(path) ? path : fs::path(path).parent_path().string();
  if (folder_.empty()) folder_ = ".";
  const std::string config_path = folder_ + "/config.json";
  if (!fs::exists(config_path)) {
    fail("cannot read the model {}: expected a config.json in {}", path, folder_);
  }
  ModelConfig config = read_model_config(config_path);
  // Before anything grows with the number of layers: every layer has at least six tensors in the file.
  sources_->safetensors = std::make_unique<TensorFiles>(open_tensors(path));
  const auto n_tensors = static_cast<int64_t>(sources_->safetensors->tensors().size());
  if (config.n_layer > n_tensors) {
    fail("{}: n_layer = {} does not fit the {} tensors of the file", config_path, config.n_layer, n_tensors);
  }
  model_ = std::make_unique<Model>(config);
  const auto has = [&](const std::string& name) { return sources_->safetensors->find(name) != nullptr; };
  const auto naming = detect_naming(model_->config, model_->table, has, sources_->prefix_missing);
  if (!naming) {
    fail("{}: the tensor names belong to no known family; expected e.g. \"{}\" for this config.json", path,
         file_place(export_naming(model_->config), model_->config, model_->table[0]).tensor);
  }
  naming_ = *naming;
}

void LoadedModel::map_weights(DType dtype) {
  const ModelConfig& c = model_->config;
  std::set<const TensorInfo*> used;
  for (const ParamSpec& spec : model_->table.specs()) {
    const FilePlace place = file_place(naming_, c, spec);
    const TensorInfo* tensor = place.tensor.empty() ? nullptr : sources_->find(place.tensor);
    if (tensor == nullptr) {
      fail("{}: the tensor \"{}\" is missing; this config.json needs it", sources_->path,
           place.tensor.empty() ? spec.name : place.tensor);
    }
    if (tensor->shape != place.file_shape) {
      fail("{}: tensor \"{}\": expected shape {} from config.json, found {}", sources_->path, place.tensor,
           shape_string(place.file_shape), shape_string(tensor->shape));
    }
    if (!is_float(tensor->dtype)) {
      fail("{}: tensor \"{}\": expected floating-point numbers, found {}", sources_->path, place.tensor,
           dtype_name(tensor->dtype));
    }
    used.insert(tensor);
    const int64_t row = spec.shape.size() == 2 ? spec.shape[1] : 1;
    if (tensor->dtype == dtype && is_aligned(*tensor) && !place.transposed) {
      const auto offset = static_cast<size_t>(place.first_row * row) * dtype_size(dtype);
      model_->weights.push_back(
          make_view(const_cast<std::byte*>(tensor->bytes.data()) + offset, dtype, spec.shape));
      continue;
    }
    copies_.emplace_back(static_cast<size_t>(spec.size()) * dtype_size(dtype), "a converted weight");
    model_->weights.push_back(make_view(copies_.back().data(), dtype, spec.shape));
    copied_bytes_ += static_cast<int64_t>(copies_.back().size());
    convert_matrix({.bytes = tensor->bytes,
                    .dtype = tensor->dtype,
                    .rows = place.file_shape[0],
                    .cols = place.file_shape.size() == 2 ? place.file_shape[1] : 1,
                    .transposed = place.transposed,
                    .first_row = place.first_row},
                   model_->weights.back());
  }
  if (!sources_->safetensors) return;
  for (const TensorInfo* tensor : sources_->safetensors->tensors()) {
    if (used.count(tensor) > 0 || is_buffer_name(tensor->name)) continue;
    const bool tied_head = c.tie_embeddings && tensor->name == head_name(naming_);
    const TensorInfo* wte = sources_->find(file_place(naming_, c, model_->table[0]).tensor);
    if (tied_head && tensor->dtype == wte->dtype && tensor->bytes.size() == wte->bytes.size() &&
        std::memcmp(tensor->bytes.data(), wte->bytes.data(), wte->bytes.size()) == 0) {
      continue;
    }
    fail("{}: the tensor {} has no place in this architecture{}", sources_->path, printable(tensor->name),
         tied_head ? "; it differs from the embedding, so set tie_word_embeddings to false" : "");
  }
}

void LoadedModel::copy_to(const ParamBuffer& weights) const {
  for (int id = 0; id < model_->table.count(); ++id) {
    const TensorView from = model_->weights[static_cast<size_t>(id)];
    const TensorView to = weights[id];
    convert_matrix({.bytes = {static_cast<const std::byte*>(from.data),
                              static_cast<size_t>(from.size()) * dtype_size(from.dtype)},
                    .dtype = from.dtype,
                    .rows = from.rank == 2 ? from.rows() : from.size(),
                    .cols = from.rank == 2 ? from.cols() : 1},
                   to);
  }
}

void write_model(const std::string& folder, const Model& model, std::span<const TensorView> weights) {
  const ModelConfig& c = model.config;
  const Naming naming = export_naming(c);
  // Fused tensors are written once, from all of their parts.
  std::vector<NamedTensor> tensors;
  for (int id = 0; id < model.table.count(); ++id) {
    const FilePlace place = file_place(naming, c, model.table[id]);
    if (place.first_row > 0) continue;  // a later part of a tensor that is in the list already
    std::vector<TensorView> parts;
    for (int other = id; other < model.table.count(); ++other) {
      if (model.table[other].layer != model.table[id].layer) break;
      if (file_place(naming, c, model.table[other]).tensor == place.tensor) {
        parts.push_back(weights[static_cast<size_t>(other)]);
      }
    }
    tensors.push_back({place.tensor, DType::f32, place.file_shape,
                       [parts, transposed = place.transposed](const EmitBytes& emit) {
                         emit_matrix(parts, transposed, emit);
                       }});
  }
  write_safetensors(folder + "/model.safetensors", tensors, {{"format", "pt"}});
  const nlohmann::json config = export_config(c);
  write_file_atomic(folder + "/config.json", config.dump(2) + "\n");
  nlohmann::json generation = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (!config[key].is_null()) generation[key] = config[key];
  }
  write_file_atomic(folder + "/generation_config.json", generation.dump(2) + "\n");
}

}  // namespace gpt

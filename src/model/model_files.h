#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/model.h"
#include "model/naming.h"
#include "model/params.h"

namespace gpt {

// A model read from disk. Weights are used in place where the file has them as this program computes with
// them (fp32, [out,in], aligned), and copied where not.
class LoadedModel {
 public:
  // path: a model folder (config.json beside safetensors), a run folder of `gpt train` (its last/), a
  // .safetensors file with a config.json beside it, or a llama2.c .bin. Throws Error for anything wrong:
  // missing or unknown tensors, wrong shapes or types.
  explicit LoadedModel(const std::string& path, DType dtype = DType::f32);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const Model& model() const { return *model_; }
  const std::string& folder() const { return folder_; }  // where tokenizer.json would be
  Naming naming() const { return naming_; }
  int64_t copied_bytes() const { return copied_bytes_; }
  // Copies all weights into a buffer of the same table, for training.
  void copy_to(const ParamBuffer& weights) const;

 private:
  struct Sources;
  void load_safetensors(const std::string& path);
  void load_llama2c(const std::string& path);
  void map_weights(DType dtype);

  std::string folder_;
  std::unique_ptr<Sources> sources_;
  std::unique_ptr<Model> model_;
  Naming naming_ = Naming::own;
  std::vector<Buffer> copies_;
  int64_t copied_bytes_ = 0;
};

// The folder that a MODEL argument means: DIR/last when DIR is a run folder, else itself.
std::string resolve_model_path(const std::string& path);

// The architecture of transformers that this config is, "gpt2", "openai-gpt", "llama" or "nanochat", or
// "gpt.cpp" when it is none of them.
std::string export_family(const ModelConfig& config);
Naming export_naming(const ModelConfig& config);

// Writes config.json, generation_config.json and model.safetensors into an existing folder.
void write_model(const std::string& folder, const Model& model, std::span<const TensorView> weights);

nlohmann::json export_config(const ModelConfig& config);
// Reads a config.json of any supported family; eos ids of generation_config.json take part when given.
ModelConfig read_model_config(const std::string& path);

}  // namespace gpt

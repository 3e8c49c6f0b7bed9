#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "io/safetensors_writer.h"
#include "model/families/family.h"
#include "model/model.h"
#include "model/params.h"

namespace gpt {

class GgufFile;
struct ModelSource;
struct TensorInfo;

// How to load matrices that a file stores as [in,out], as in GPT-2.
enum class MatrixOrder : uint8_t {
  rows,  // copy the matrix to [out,in], the order of all other matrices
  // Use the matrix without a copy (TensorView::transposed). Only matmuls support this order, so only
  // Inference can use it.
  as_stored,
};

// Properties of a model that a file with only tensors does not specify. 0 and an empty string mean "not
// given".
struct ShapeHints {
  int64_t n_head = 0;
  std::string act;
};

// A model that was loaded from disk. A weight is read directly from the memory-mapped file if it has the
// requested dtype or is quantized, and if it is aligned and in the requested order. All other weights are
// copied and converted.
class LoadedModel {
 public:
  // path: a model folder (config.json next to safetensors files), a run folder of `gpt train` (reads its
  // best/ or last/), a .safetensors file with a config.json next to it, a .gguf file, or any other file that
  // open_model_source reads. dtype: the dtype of all weights, which are converted if necessary. With fp32,
  // quantized matrices stay quantized. If dtype is unset, matrices keep the dtype of the file, and vectors
  // are fp32. hints: must agree with the files. device: the device whose memory holds the weights; null: host
  // memory. Throws Error for missing or unknown tensors and for wrong shapes or dtypes.
  explicit LoadedModel(const std::string& path, std::optional<DType> dtype = DType::f32,
                       MatrixOrder order = MatrixOrder::rows, const ShapeHints& hints = {},
                       Device* device = nullptr);
  // Loads a model from files that are already open.
  LoadedModel(ModelSource source, std::optional<DType> dtype, MatrixOrder order, Device* device = nullptr);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const Model& model() const { return *model_; }
  std::vector<std::string> paths() const;  // model path, config file and tensor files
  const std::string& folder() const;       // folder that may contain a tokenizer.json
  const GgufFile* gguf() const;            // the GGUF file, or null; its metadata contains a tokenizer
  const Naming& naming() const { return *naming_; }
  int64_t copied_bytes() const { return copied_bytes_; }
  // Copies all weights into a buffer with the same parameter table, for training. Quantized weights are
  // dequantized. If the vocabulary of the buffer is larger, its additional rows stay unchanged. The memory of
  // each memory-mapped weight is released before the next weight is copied. copied: called after each
  // parameter has been copied.
  void copy_to(const ParamBuffer& weights, const std::function<void(int id)>& copied = {}) const;

  // Adds an adapter to its target matrices, which become fp32 matrices in newly allocated memory. Does not
  // support MatrixOrder::as_stored. Returns the number of target matrices that were quantized.
  int64_t merge(const Adapter& adapter);

  // Replaces each weight by its mean over this model and all models in `others` (Izmailov et al. 2018). The
  // mean is computed in double and rounded once to fp32. Does not support MatrixOrder::as_stored. Throws
  // Error if a model has a different config or a quantized weight.
  void average(const std::vector<std::unique_ptr<LoadedModel>>& others);

  // The tensor that contains a parameter, and the place of the parameter in this tensor. `origins` is indexed
  // by parameter id. `ignored` returns the tensors that no parameter uses.
  struct Origin {
    const TensorInfo* tensor;
    FilePlace place;
  };
  const std::vector<Origin>& origins() const { return origins_; }
  static constexpr const char* kTaskHead = "a task head";
  struct Ignored {
    const TensorInfo* tensor;
    const char* why;
  };
  const std::vector<Ignored>& ignored() const { return ignored_; }

 private:
  const TensorInfo* find(std::string name) const;
  void find_naming();
  void map_weight(int id, std::optional<DType> wanted, MatrixOrder order);
  void convert_weight(const TensorInfo& tensor, const FilePlace& place, const ParamSpec& spec, DType dtype);
  void check_unused();
  void map_to_device();

  std::unique_ptr<ModelSource> source_;
  std::unique_ptr<Model> model_;
  const Naming* naming_ = nullptr;
  bool prefix_missing_ = false;  // see detect_naming
  std::vector<Origin> origins_;
  std::vector<Ignored> ignored_;
  Device* device_;
  std::vector<Buffer> copies_;
  std::vector<std::pair<std::byte*, std::span<const std::byte>>>
      mapped_;  // device memory, and the file data that is mapped to it
  int64_t copied_bytes_ = 0;
};

// Returns the folder or file for a MODEL argument. For a run folder DIR, returns DIR/best if it contains a
// model, else DIR/last. Returns any other path unchanged.
std::string resolve_model_path(const std::string& path);

// Returns the transformers family whose config.json can express this config, or the family of gpt.cpp if
// there is none.
const Family& export_family(const ModelConfig& config);

// Returns the config with all biases, if it uses LayerNorm. A GPT-2 with zero biases computes the same
// results as a GPT-2 without biases.
ModelConfig with_biases(ModelConfig config);
// Returns the config for saving a model in the format of transformers. Sets the rope layout to `halves` and
// enables all biases, if a family of transformers can express the changed config.
ModelConfig hf_config(ModelConfig config);

// Returns all tensors of a model with the tensor names of `naming`, ready to be written in the given dtype.
// The weights may have any floating-point dtype or be quantized. The views must stay valid until the tensors
// are written.
std::vector<NamedTensor> named_weights(const Model& model, std::span<const TensorView> weights,
                                       const Naming& naming, DType dtype);

// A task head in the format of transformers. The task classes of transformers combine the language model of a
// family with a different head. This struct contains the tensors of the head and the config.json keys of the
// head.
struct HeadFiles {
  std::vector<NamedTensor> tensors;
  std::string config;  // JSON object; its keys replace those of the model
};
// Returns true if a tensor belongs to a task head.
bool is_head_tensor(std::string_view name);

// Options for writing weights.
struct WriteOptions {
  DType dtype = DType::f32;           // fp32, bf16 or fp16
  uint64_t shard_bytes = UINT64_MAX;  // maximum size of a file; a larger tensor gets its own file
  const HeadFiles* head = nullptr;    // task head to write to the same files, or null
};

// Writes config.json, generation_config.json and model.safetensors to an existing folder. With several
// shards, writes model-00001-of-0000N.safetensors, ... and model.safetensors.index.json instead of
// model.safetensors. The weights may have any floating-point dtype.
void write_model(const std::string& folder, const Model& model, std::span<const TensorView> weights,
                 const WriteOptions& options = {});
// Returns the names of the files that write_model writes.
std::vector<std::string> model_file_names(const Model& model, std::span<const TensorView> weights,
                                          const WriteOptions& options);

nlohmann::json export_config(const ModelConfig& config, DType dtype = DType::f32);
// Returns a note for users if other programs interpret a model's config.json differently. The note explains
// how gpt.cpp interprets the file. Returns "" if there is no note or the file cannot be read.
std::string config_note(const std::string& model);
// Reads a config.json of any supported family. If a generation_config.json exists, its token ids replace the
// token ids in config.json.
ModelConfig read_model_config(const std::string& path);
// Reads a config from the content of a config.json. `what` names the file in error messages.
ModelConfig model_config_from_json(const nlohmann::json& object, const std::string& what);

}  // namespace gpt

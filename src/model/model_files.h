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

// What becomes of the matrices that a file stores as [in,out], as GPT-2's do.
enum class MatrixOrder : uint8_t {
  rows,       // copied, as [out,in] like all others
  as_stored,  // used in place (TensorView::transposed): for products alone, that is for Inference
};

// What a file that has nothing but tensors does not say of its model; 0 and empty: not given.
struct ShapeHints {
  int64_t n_head = 0;
  std::string act;
};

// A model read from disk. Weights are used in place where the file has them in the type that is wanted, or in
// blocks (aligned, and [out,in] unless told otherwise), and copied where not.
class LoadedModel {
 public:
  // path: a model folder (config.json beside safetensors), a run folder of `gpt train` (its last/), a
  // .safetensors file with a config.json beside it, a .gguf, or any file that
  // open_model_source reads. dtype: of all weights, widened if need be, except that matrices of a block
  // format stay what they are beside fp32; or nothing: matrices stay in the type they are stored in, vectors
  // are fp32. hints: must agree with what the files say. Throws Error for anything wrong: missing or unknown
  // tensors, wrong shapes or types.
  // The weights lie in `memory`, null: the host's.
  explicit LoadedModel(const std::string& path, std::optional<DType> dtype = DType::f32,
                       MatrixOrder order = MatrixOrder::rows, const ShapeHints& hints = {},
                       Device* device = nullptr);
  // From files that are open.
  LoadedModel(ModelSource source, std::optional<DType> dtype, MatrixOrder order, Device* device = nullptr);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const Model& model() const { return *model_; }
  std::vector<std::string> paths() const;  // what is read: the path itself, config and files of tensors
  const std::string& folder() const;       // where tokenizer.json would be
  const GgufFile* gguf() const;            // the file, when it is one; its metadata has a tokenizer
  const Naming& naming() const { return *naming_; }
  int64_t copied_bytes() const { return copied_bytes_; }
  // Copies all weights into a buffer of the same table, for training; blocks become numbers. The vocabulary
  // of the buffer may be larger: its rows for more tokens stay as they are. Of what is mapped no more than
  // one weight stays in memory. copied: called for each parameter when it is there.
  void copy_to(const ParamBuffer& weights, const std::function<void(int id)>& copied = {}) const;

  // Adds an adapter to the matrices that it is for, which are then fp32 numbers in memory of their own; not
  // with MatrixOrder::as_stored. Returns how many of them were blocks.
  int64_t merge(const Adapter& adapter);

  // Makes of each weight the mean of it and the others', in double and rounded once to fp32 (Izmailov et al.
  // 2018); not with MatrixOrder::as_stored. Throws Error naming one of another shape, and matrices in blocks.
  void average(const std::vector<std::unique_ptr<LoadedModel>>& others);

  // Where each parameter comes from, by id; and the tensors of the files that none comes from.
  struct Origin {
    const TensorInfo* tensor;
    FilePlace place;
  };
  const std::vector<Origin>& origins() const { return origins_; }
  static constexpr const char* kTaskHead = "the head of a task";
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
  std::vector<std::pair<std::byte*, std::span<const std::byte>>> mapped_;  // on the device, and of the files
  int64_t copied_bytes_ = 0;
};

// Returns the folder or file that a MODEL argument means: for a run folder DIR, DIR/best if it holds a model,
// else DIR/last; any other path itself.
std::string resolve_model_path(const std::string& path);

// The family of transformers whose config.json can express this config, or our own.
const Family& export_family(const ModelConfig& config);

// A GPT-2 that lacks biases is one whose biases are zero.
ModelConfig with_biases(ModelConfig config);
// The config with which a model is written in transformers' layout: heads in halves, and all biases, where
// that makes it a family of transformers.
ModelConfig hf_config(ModelConfig config);

// All tensors of a model as a naming has them, ready to be written in a type. The weights, of any floating
// type or in blocks, must live until then.
std::vector<NamedTensor> named_weights(const Model& model, std::span<const TensorView> weights,
                                       const Naming& naming, DType dtype);

// The head of a task as transformers' classes have it, which are the family's language model with another
// head: its tensors, and what config.json says of it.
struct HeadFiles {
  std::vector<NamedTensor> tensors;
  std::string config;  // JSON object; its keys replace those of the model
};
// Whether a tensor is part of such a head.
bool is_head_tensor(std::string_view name);

// How weights are written.
struct WriteOptions {
  DType dtype = DType::f32;           // or bf16, fp16
  uint64_t shard_bytes = UINT64_MAX;  // tensors of one file, a larger tensor alone in its file
  const HeadFiles* head = nullptr;    // of a task: goes into the same files
};

// Writes config.json, generation_config.json and model.safetensors into an existing folder; with several
// shards model-00001-of-0000N.safetensors, ... and model.safetensors.index.json instead. Weights: of any
// floating type.
void write_model(const std::string& folder, const Model& model, std::span<const TensorView> weights,
                 const WriteOptions& options = {});
// The names of the files that write_model writes.
std::vector<std::string> model_file_names(const Model& model, std::span<const TensorView> weights,
                                          const WriteOptions& options);

nlohmann::json export_config(const ModelConfig& config, DType dtype = DType::f32);
// What a model's config.json leaves to programs, which take it differently, and what is done here: for
// people, "" if nothing or if it cannot be read.
std::string config_note(const std::string& model);
// Reads a config.json of any supported family; eos ids of generation_config.json take part when given.
ModelConfig read_model_config(const std::string& path);
// The same from its content; `what` names it in errors.
ModelConfig model_config_from_json(const nlohmann::json& object, const std::string& what);

}  // namespace gpt

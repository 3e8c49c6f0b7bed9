#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convert/gguf_export.h"
#include "model/model_files.h"
#include "tensor/buffer.h"

namespace gpt {

// Formats to which a model can be converted.
enum class ModelFormat : uint8_t {
  hf,      // a folder in the layout of transformers
  gguf,    // a GGUF file with the tokenizer: architectures llama and gpt2
  llmc,    // a .bin file of llm.c: GPT-2 only
  llama2c  // a .bin file of llama2.c, version 0: Llama only
};

struct ConversionOptions {
  ModelFormat to = ModelFormat::hf;
  // The dtype of the result: fp32, bf16, fp16, or for GGUF a quantized dtype. By default, the result has the
  // dtype of the source's embedding if this dtype is bf16 or fp16 and the format supports it. Otherwise, the
  // default is fp32.
  std::optional<DType> dtype = {};
  uint64_t shard_bytes = UINT64_MAX;  // for hf: see WriteOptions
  // Tokenizer, name and chat templates that a GGUF file stores in addition to the model. The tokenizer must
  // exist until the file is written.
  const Tokenizer* tokenizer = nullptr;
  std::string name = {};
  ChatTemplates chat_templates = {};
};

// The source and the target of one parameter.
struct TensorMove {
  std::string source;
  DType source_dtype;
  Shape source_shape;
  std::string parameter;
  Shape shape;
  std::string target;
  DType target_dtype;
  Shape target_shape;
  std::string note;  // "transposed", "rows 64 to 127", ...
};

// A conversion that is planned before anything is written. LoadedModel ensures that every tensor of the
// source either has a place in the target or is listed in loaded.ignored().
class Conversion {
 public:
  // `loaded` must outlive the object. Throws Error with the reason if the format cannot store the model.
  Conversion(const LoadedModel& loaded, const ConversionOptions& options);

  const std::vector<TensorMove>& moves() const { return moves_; }
  // Returns the name of the target format: an architecture of transformers, "gpt.cpp", "llm.c", "llama2.c",
  // "GGUF llama" or "GGUF gpt2".
  const std::string& target() const { return target_; }
  DType dtype() const { return options_.dtype.value(); }  // dtype of the matrices
  int64_t parameters() const;      // number of parameters, including zeros that the target needs
  int64_t target_tensors() const;  // number of tensors in the target
  // Returns the size of all tensors in the target in bytes.
  int64_t bytes() const;

  // Returns a sentence for each property of the model that the format cannot store. The sentence describes
  // how programs that read the file behave, or it gives advice.
  std::vector<std::string> notes() const;

  // Returns the file names of an hf folder. Returns an empty list for single-file formats.
  std::vector<std::string> file_names() const;

  // Writes to an existing folder (hf) or to a file (other formats). A file at the path is replaced when the
  // new file is complete.
  void write(const std::string& path) const;

 private:
  void choose_hf();
  void choose_gguf();
  void choose_llmc();
  void choose_llama2c();
  void change_rope_layout(RopeLayout layout);
  void change_model(const ModelConfig& config);
  void list_moves();
  void check_range() const;
  void note_dropout(std::vector<std::string>& notes) const;
  void note_added_tokens(std::vector<std::string>& notes) const;
  void note_fallbacks(std::vector<std::string>& notes) const;
  void note_ends(std::vector<std::string>& notes) const;
  TensorMove move_of(int id, DType target) const;
  GgufExportOptions gguf_options() const;

  const LoadedModel& loaded_;
  ConversionOptions options_;
  std::string target_;
  const Family* family_ = nullptr;  // for hf and GGUF
  const Naming* naming_ = nullptr;
  std::unique_ptr<Model> model_;  // the model with the config of the target
  std::vector<TensorView> weights_;
  std::vector<int> origin_ids_;  // ids of parameters in the source; -1: zeros
  std::vector<Buffer> made_;     // weights that differ from the source
  std::vector<TensorMove> moves_;
};

}  // namespace gpt

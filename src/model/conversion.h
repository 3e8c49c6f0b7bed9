#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "tensor/buffer.h"

namespace gpt {

// The formats that a model can be written in.
enum class ModelFormat : uint8_t {
  hf,      // a folder in the layout of transformers
  llmc,    // a .bin of llm.c: GPT-2 only
  llama2c  // a .bin of llama2.c, version 0: Llama only
};

struct ConversionOptions {
  ModelFormat to = ModelFormat::hf;
  std::optional<DType> dtype = {};    // fp32, bf16 or fp16; else that of the embedding in the source
  uint64_t shard_bytes = UINT64_MAX;  // of hf, as in WriteOptions
};

// Where one parameter comes from and goes to.
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

// A conversion laid out before anything is written. Every tensor of the source either has a place in the
// target or is one of loaded.ignored(); LoadedModel sees to that.
class Conversion {
 public:
  // `loaded` must outlive the object. Throws Error when the format cannot hold the model, saying why.
  Conversion(const LoadedModel& loaded, const ConversionOptions& options);

  const std::vector<TensorMove>& moves() const { return moves_; }
  // What the result is: an architecture of transformers, "gpt.cpp", "llm.c" or "llama2.c".
  const std::string& target() const { return target_; }
  DType dtype() const { return options_.dtype.value(); }
  // The bytes of all tensors in the target.
  int64_t bytes() const;

  // Writes into an existing folder (hf) or to a file (else), which takes its place when complete.
  void write(const std::string& path) const;

 private:
  void choose_hf();
  void choose_llmc();
  void choose_llama2c();
  void add_biases();
  void change_rope_layout(RopeLayout layout);
  void change_model(const ModelConfig& config);
  void list_moves();

  const LoadedModel& loaded_;
  ConversionOptions options_;
  std::string target_;
  Naming naming_ = Naming::own;
  std::unique_ptr<Model> model_;  // as the target has it
  std::vector<TensorView> weights_;
  std::vector<int> origin_ids_;  // of the source's parameters; -1: zeros that the target needs
  std::vector<Buffer> made_;     // what differs from the source
  std::vector<TensorMove> moves_;
};

}  // namespace gpt

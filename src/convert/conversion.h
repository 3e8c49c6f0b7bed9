#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convert/gguf_export.h"
#include "model/model_files.h"
#include "tensor/buffer.h"

namespace gpt {

// The formats that a model can be written in.
enum class ModelFormat : uint8_t {
  hf,      // a folder in the layout of transformers
  gguf,    // a GGUF file, with its tokenizer in it: architectures llama and gpt2
  llmc,    // a .bin of llm.c: GPT-2 only
  llama2c  // a .bin of llama2.c, version 0: Llama only
};

struct ConversionOptions {
  ModelFormat to = ModelFormat::hf;
  // fp32, bf16 or fp16, or for GGUF a block format; else that of the embedding in the source.
  std::optional<DType> dtype = {};
  uint64_t shard_bytes = UINT64_MAX;  // of hf, as in WriteOptions
  // What a GGUF file holds besides; the tokenizer must live until it is written.
  const Tokenizer* tokenizer = nullptr;
  std::string name = {};
  ChatTemplates chat_templates = {};
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
  // What the result is: an architecture of transformers, "gpt.cpp", "llm.c", "llama2.c", "GGUF llama", "GGUF
  // gpt2".
  const std::string& target() const { return target_; }
  DType dtype() const { return options_.dtype.value(); }  // of the matrices
  int64_t parameters() const;      // numbers, those of zeros that the target needs included
  int64_t target_tensors() const;  // of these numbers, in the target
  // The bytes of all tensors in the target.
  int64_t bytes() const;

  // What the format has no place for and what its readers then take for granted, a sentence each.
  std::vector<std::string> notes() const;

  // Files of an hf folder, by name; empty for formats of one file.
  std::vector<std::string> file_names() const;

  // Writes into an existing folder (hf) or to a file (else), which takes its place when complete.
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
  const Family* family_ = nullptr;  // of hf and GGUF
  const Naming* naming_ = nullptr;
  std::unique_ptr<Model> model_;  // as the target has it
  std::vector<TensorView> weights_;
  std::vector<int> origin_ids_;  // of the source's parameters; -1: zeros that the target needs
  std::vector<Buffer> made_;     // what differs from the source
  std::vector<TensorMove> moves_;
};

}  // namespace gpt

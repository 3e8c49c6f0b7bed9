#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "text/tokenizer.h"

namespace gpt {

struct GgufExportOptions {
  // Of the matrices: fp32, fp16, bf16 or a block format. As llama.cpp does it, vectors and positions stay
  // fp32 and the matrix of the head is q6_k (q8_0) beside blocks of fewer (8) bits.
  DType dtype = DType::f32;
  std::string name;                          // general.name
  std::optional<std::string> chat_template;  // Jinja's language
};

// Row r of a matrix, or element r of a vector (one column), as numbers.
void read_row(const TensorView& view, int64_t r, int64_t cols, float* x);

// What a matrix became whose rows are not whole blocks of the type wanted.
struct GgufFallback {
  std::string tensor;
  DType wanted, used;
};

// The type that each parameter has in the file, by id.
std::vector<DType> gguf_types(const Model& model, const GgufExportOptions& options);

// The tensors that will not have the type wanted, because their rows are not whole blocks of it.
std::vector<GgufFallback> gguf_fallbacks(const Model& model, const GgufExportOptions& options);

// Writes a model as a GGUF file of version 3 that llama.cpp loads; queries and keys are put into the order in
// which it rotates them. weights: by parameter id, of any floating type or blocks. Without tokenizer the file
// says that it has none. Streams; a crash or error leaves what was there before. Throws Error.
std::vector<GgufFallback> write_gguf(const std::string& path, const Model& model,
                                     std::span<const TensorView> weights, const Tokenizer* tokenizer,
                                     const GgufExportOptions& options);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "text/chat_formats.h"
#include "text/tokenizer.h"

namespace gpt {

struct GgufExportOptions {
  // Of the matrices: fp32, fp16, bf16 or a block format. As llama.cpp does it, vectors and positions stay
  // fp32 and the matrix of the head is q6_k (q8_0) beside blocks of fewer (8) bits.
  DType dtype = DType::f32;
  std::string name;  // general.name
  ChatTemplates chat_templates = {};
};

// Row r of a matrix, or element r of a vector (one column), as numbers.
void read_row(const TensorView& view, int64_t r, int64_t cols, float* x);

// The type that is wanted for a parameter, and the one that it has in the file: another where its rows are
// not whole blocks.
struct GgufParamType {
  DType wanted, used;
};
std::vector<GgufParamType> gguf_types(const Model& model, const GgufExportOptions& options);  // by id

// Writes a model as a GGUF file of version 3 that llama.cpp loads; queries and keys are put into the order in
// which it rotates them. weights: by parameter id, of any floating type or blocks. Without tokenizer the file
// says that it has none. Streams; a crash or error leaves what was there before. Throws Error.
void write_gguf(const std::string& path, const Model& model, std::span<const TensorView> weights,
                const Tokenizer* tokenizer, const GgufExportOptions& options);

}  // namespace gpt

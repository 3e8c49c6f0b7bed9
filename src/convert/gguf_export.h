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
  // The dtype of the matrices: fp32, fp16, bf16 or a quantized dtype. As in llama.cpp, vectors and positions
  // stay fp32. With a quantized dtype, the matrix of the head is q6_k, or q8_0 if the dtype is q8_0.
  DType dtype = DType::f32;
  std::string name;  // general.name
  ChatTemplates chat_templates = {};
};

// Reads row r of a matrix, or element r of a vector (one column), as fp32 values.
void read_row(const TensorView& view, int64_t r, int64_t cols, float* x);

// The requested dtype of a parameter and its dtype in the file. The two dtypes differ if the rows of the
// parameter do not consist of whole quantization blocks.
struct GgufParamType {
  DType wanted, used;
};
// Returns the dtypes of all parameters, indexed by parameter id.
std::vector<GgufParamType> gguf_types(const Model& model, const GgufExportOptions& options);

// Writes a model as a GGUF file of version 3 that llama.cpp can load. The rows of queries and keys are
// written in llama.cpp's RoPE order. `weights` is indexed by parameter id and can have any floating-point or
// quantized dtype. Without a tokenizer, the metadata state that the file has no tokenizer. The tensors are
// streamed to the file. After a crash or an error, an existing file is unchanged. Throws Error.
void write_gguf(const std::string& path, const Model& model, std::span<const TensorView> weights,
                const Tokenizer* tokenizer, const GgufExportOptions& options);

}  // namespace gpt

#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "io/tensor_file.h"

namespace gpt {

// The fields of the header, which consists of 256 int32 values.
struct LlmcHeader {
  DType dtype = DType::f32;  // dtype of all tensors: fp32 (version 3) or bf16 (version 5)
  int64_t max_seq_len = 0;
  int64_t vocab_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t channels = 0;
  int64_t padded_vocab_size = 0;  // rows of wte in the file; the rows after vocab_size are padding
};

constexpr uint32_t kLlmcMagic = 20240326;

// A memory-mapped GPT-2 checkpoint of llm.c. The file contains the tensors below in this order, with matrices
// [out,in], C channels and one tensor per layer i:
//   wte [V,C] (without the padding); wpe [T,C]; ln1w.i, ln1b.i [C]; qkvw.i [3C,C]; qkvb.i [3C]; attprojw.i
//   [C,C]; attprojb.i [C]; ln2w.i, ln2b.i [C]; fcw.i [4C,C]; fcb.i [4C]; fcprojw.i [C,4C]; fcprojb.i [C];
//   lnfw, lnfb [C]
// Tensors of the same kind are stored together for all layers. Before it allocates memory, the constructor
// validates every header field and checks that the file has exactly the size that the header implies. Throws
// Error that names the file if it is invalid. Source: llm.c, train_gpt2.py (write_model) and train_gpt2.c
// (gpt2_build_from_checkpoint).
class LlmcFile : public TensorFile {
 public:
  explicit LlmcFile(const std::string& path);
  // Reads a checkpoint from memory. `bytes` must outlive the object; `what` names the file in error messages.
  LlmcFile(std::span<const std::byte> bytes, const std::string& what);

  const LlmcHeader& header() const { return header_; }
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);

  MappedFile file_;
  LlmcHeader header_;
};

struct NamedTensor;

// Writes an llm.c checkpoint from tensors that have the names listed above and the dtype `header.dtype`, in
// any order. The rows of wte are padded with zeros. The file is replaced as crash-safely as by
// write_safetensors. Throws Error if the file cannot be written.
void write_llmc(const std::string& path, const LlmcHeader& header, std::span<const NamedTensor> tensors);

}  // namespace gpt

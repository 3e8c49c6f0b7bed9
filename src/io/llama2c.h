#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "io/tensor_file.h"
#include "tensor/buffer.h"

namespace gpt {

// The header fields of a llama2.c checkpoint.
struct Llama2cHeader {
  int64_t dim = 0;
  int64_t hidden_dim = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t vocab_size = 0;
  int64_t seq_len = 0;
  bool tied = true;
  int version = 0;         // 0: legacy; 1: fp32; 2: int8 groups
  int64_t group_size = 0;  // only in version 2
};

constexpr uint32_t kLlama2cMagic = 0x616b3432;  // "ak42", the magic number of versions 1 and 2

// A memory-mapped llama2.c checkpoint. Matrices are [out,in]. RoPE rotates neighboring pairs (2i, 2i+1) of q
// and k. Version 0 stores the tensors of all layers i in this order:
//   tok_emb [V,dim]; rms_att.i [dim]; wq.i [dim,dim]; wk.i, wv.i [kv_dim,dim]; wo.i [dim,dim];
//   rms_ffn.i [dim]; w1.i (gate) [hidden,dim]; w2.i (down) [dim,hidden]; w3.i (up) [hidden,dim];
//   rms_final [dim]; freq_cis_real, freq_cis_imag [seq_len, head_dim/2]; wcls [V,dim] if untied.
// Versions 1 and 2 store all norms first and have no freq_cis tensors. Version 2 stores matrices as int8 with
// one scale per group; opening the file converts them to fp32. Before it allocates memory, the constructor
// validates every header field and checks that the file has exactly the size that the header implies. Throws
// Error that names the file if the file is invalid. Source: llama2.c, export.py, run.c and runq.c
// (memory_map_weights).
class Llama2cFile : public TensorFile {
 public:
  explicit Llama2cFile(const std::string& path);
  // Reads a checkpoint from memory. `bytes` must outlive the object; `what` names the file in error messages.
  Llama2cFile(std::span<const std::byte> bytes, const std::string& what);

  const Llama2cHeader& header() const { return header_; }
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);

  MappedFile file_;
  Llama2cHeader header_;
  std::vector<Buffer> widened_;  // fp32 copies of the int8 matrices of version 2
};

struct NamedTensor;

// Writes a version 0 checkpoint from fp32 tensors that have the names listed above, in any order. The caller
// must not pass the freq_cis tables. Readers skip these tables, so the function writes zeros for them. Like
// write_safetensors, the function replaces the file atomically, so a crash leaves the previous file
// unchanged.
void write_llama2c(const std::string& path, const Llama2cHeader& header,
                   std::span<const NamedTensor> tensors);

}  // namespace gpt

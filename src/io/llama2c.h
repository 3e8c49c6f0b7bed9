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

// What the start of the file says.
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
  int64_t group_size = 0;  // of version 2
};

constexpr uint32_t kLlama2cMagic = 0x616b3432;  // "ak42": versions 1 and 2

// A llama2.c checkpoint, mapped and lazy. Matrices are [out, in], and q and k are rotated in neighbouring
// pairs (2i, 2i+1). L layers give, in the order of version 0:
//   tok_emb [V,dim]; rms_att.i [dim]; wq.i [dim,dim]; wk.i, wv.i [kv_dim,dim]; wo.i [dim,dim];
//   rms_ffn.i [dim]; w1.i (gate) [hidden,dim]; w2.i (down) [dim,hidden]; w3.i (up) [hidden,dim];
//   rms_final [dim]; freq_cis_real, freq_cis_imag [seq_len, head_dim/2]; wcls [V,dim] if untied.
// Versions 1 and 2 have no freq_cis and begin with the norms; the matrices of version 2, int8 with a scale
// per group, are widened to fp32 when the file is opened. Every number is checked, and the size of the file
// must be exactly what they say, before anything is allocated; else throws Error naming the file. Source:
// llama2.c, export.py, run.c and runq.c (memory_map_weights).
class Llama2cFile : public TensorFile {
 public:
  explicit Llama2cFile(const std::string& path);
  // The same for bytes in memory, which must outlive the object; `what` names them in errors.
  Llama2cFile(std::span<const std::byte> bytes, const std::string& what);

  const Llama2cHeader& header() const { return header_; }
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);

  MappedFile file_;
  Llama2cHeader header_;
  std::vector<Buffer> widened_;  // of version 2
};

struct NamedTensor;

// Writes a file of version 0 from its fp32 tensors under the names above without freq_cis (tables of
// rotations that readers step over: zeros), in any order. As crash-safe as write_safetensors.
void write_llama2c(const std::string& path, const Llama2cHeader& header,
                   std::span<const NamedTensor> tensors);

}  // namespace gpt

#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "io/tensor_file.h"

namespace gpt {

// What the first 256 numbers of the file say.
struct LlmcHeader {
  DType dtype = DType::f32;  // of all tensors: fp32 (version 3) or bf16 (version 5)
  int64_t max_seq_len = 0;
  int64_t vocab_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t channels = 0;
  int64_t padded_vocab_size = 0;  // rows of wte in the file; those past vocab_size are padding
};

constexpr uint32_t kLlmcMagic = 20240326;

// A GPT-2 checkpoint of llm.c, mapped and lazy. C channels and L layers give, in order, matrices [out,in]:
//   wte [V,C] (without the padding); wpe [T,C]; ln1w.i, ln1b.i [C]; qkvw.i [3C,C]; qkvb.i [3C]; attprojw.i
//   [C,C]; attprojb.i [C]; ln2w.i, ln2b.i [C]; fcw.i [4C,C]; fcb.i [4C]; fcprojw.i [C,4C]; fcprojb.i [C];
//   lnfw, lnfb [C]
// where all layers of a kind stand together. Every number is checked, and the size of the file must be
// exactly what they say, before anything is allocated; else throws Error naming the file. Source: llm.c,
// train_gpt2.py (write_model) and train_gpt2.c (gpt2_build_from_checkpoint).
class LlmcFile : public TensorFile {
 public:
  explicit LlmcFile(const std::string& path);
  // The same for bytes in memory, which must outlive the object; `what` names them in errors.
  LlmcFile(std::span<const std::byte> bytes, const std::string& what);

  const LlmcHeader& header() const { return header_; }
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);

  MappedFile file_;
  LlmcHeader header_;
};

struct NamedTensor;

// Writes such a file from its tensors under the names above, in any order and in header.dtype; wte is padded
// with zeros. As crash-safe as write_safetensors. Throws Error when it cannot be written.
void write_llmc(const std::string& path, const LlmcHeader& header, std::span<const NamedTensor> tensors);

}  // namespace gpt

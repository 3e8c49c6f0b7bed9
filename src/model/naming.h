#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model/param_table.h"

namespace gpt {

// How a kind of checkpoint names and stores parameters.
enum class Naming : uint8_t {
  own,                // gpt.cpp
  hf_gpt2,            // transformers gpt2
  hf_gpt1,            // transformers openai-gpt
  hf_llama,           // transformers llama
  hf_nanochat,        // transformers nanochat
  nanochat_notebook,  // the five systems' own PyTorch modules
  nanochat_doc,
  gpt2_scratch,
  gpt1_preln,
  mini_gpt,
  llama2c,     // the tensors of a llama2.c .bin
  llmc,        // the tensors of an llm.c .bin
  nanogpt,     // names of transformers gpt2, but matrices [out,in]
  gguf_llama,  // GGUF files of the architectures llama and qwen2
  gguf_gpt2    // and gpt2
};

// Where a parameter is in a file: rows [first_row, first_row + out) of a tensor, which is stored [in,out]
// when `transposed`.
struct FilePlace {
  std::string tensor;
  Shape file_shape;  // of the whole tensor
  int64_t first_row = 0;
  bool transposed = false;
};

FilePlace file_place(Naming naming, const ModelConfig& config, const ParamSpec& spec);

// The naming whose tensors a file has; `has` tells whether a name is in it. Where a file lacks the prefix
// "transformer." of transformers' GPT models, `prefix_missing` is set and names are to be used without it.
std::optional<Naming> detect_naming(const ModelConfig& config, const ParamTable& table,
                                    const std::function<bool(const std::string&)>& has, bool& prefix_missing);

// A tensor that module state_dicts hold besides parameters: masks and rotary tables.
bool is_buffer_name(std::string_view name);

// The name under which a tied model's output matrix may appear again.
std::string head_name(Naming naming);

}  // namespace gpt

#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "io/tensor_info.h"
#include "model/param_table.h"

namespace gpt {

using LayerNames = std::array<const char*, 4>;

// How a kind of checkpoint names and stores parameters. The names are those of layers, with {0} for the
// block, {1} for what a parameter is of its layer and {2} for the expert; null where the family has no such
// layer.
struct Naming {
  LayerNames outside;      // token embedding, position embedding, last norm, head
  const char* block = "";  // goes before those in blocks
  LayerNames norms = {};
  LayerNames qkv = {};     // queries, keys, values; or one, where they lie one below the other in a matrix
  LayerNames linear = {};  // out of the attention, into the MLP, out of it, its gate
  bool transposed_blocks = false;                         // transformers' Conv1D: block matrices are [in,out]
  std::array<const char*, 2> words = {"weight", "bias"};  // what {1} becomes
  std::array<const char*, 2> norm_words = {"weight", "bias"};
};

// Where a parameter is in a file: rows [first_row, first_row + out) of a tensor, which is stored [in,out]
// when `transposed`.
struct FilePlace {
  std::string tensor;  // empty: this kind of file has no place for it
  Shape file_shape;    // of the whole tensor
  int64_t first_row = 0;
  bool transposed = false;
};

FilePlace file_place(const Naming& naming, const ModelConfig& config, const ParamSpec& spec);

// The layer that a parameter belongs to, as its program calls it inside a block: "c_attn", "q_proj". These
// are the target_modules of LoRA adapters. Empty: it has none.
std::string module_name(const Naming& naming, Role role);

// The naming of a family whose tensors a file has, null when there is none; `find` gives the tensor of a name
// or null. Where a file lacks the prefix "transformer." of transformers' GPT models, `prefix_missing` is set
// and names are to be used without it.
const Naming* detect_naming(const ParamTable& table, const ModelConfig& config,
                            const std::function<const TensorInfo*(const std::string&)>& find,
                            bool& prefix_missing);

// A tensor's name without the prefix that transformers' base models (those without a head) leave away.
std::string without_base_prefix(const std::string& name);

// A tensor that module state_dicts hold besides parameters: masks and rotary tables.
bool is_buffer_name(std::string_view name);

// The name under which a tied model's output matrix may appear again.
std::string head_name(const Naming& naming);

}  // namespace gpt

#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "io/tensor_info.h"
#include "model/param_table.h"

namespace gpt {

using LayerNames = std::array<const char*, 4>;

// The parameter names and the matrix layout of a checkpoint format. A name is a pattern with {0} for the
// layer index, {1} for the parameter of a module (weight or bias), and {2} for the expert. A name is null if
// the family has no such module.
struct Naming {
  LayerNames outside;      // token embedding, position embedding, final norm, head
  const char* block = "";  // prefix of the names of parameters in layers
  LayerNames norms = {};
  // Queries, keys and values; or one name, if the three are stacked by rows in one matrix.
  LayerNames qkv = {};
  // Attention output projection, and up, down and gate projections of the MLP.
  LayerNames linear = {};
  // True if the matrices of layers are stored as [in,out] (Conv1D of transformers).
  bool transposed_blocks = false;
  std::array<const char*, 2> words = {"weight", "bias"};  // values of {1}
  std::array<const char*, 2> norm_words = {"weight", "bias"};
};

// The place of a parameter in a file: rows [first_row, first_row + out) of a tensor. The tensor is stored as
// [in,out] if `transposed` is set.
struct FilePlace {
  std::string tensor;  // empty: this kind of file does not contain the parameter
  Shape file_shape;    // shape of the whole tensor
  int64_t first_row = 0;
  bool transposed = false;
};

FilePlace file_place(const Naming& naming, const ModelConfig& config, const ParamSpec& spec);

// Returns the name that a program uses for the module of a parameter, such as "c_attn" or "q_proj". The
// target_modules of LoRA adapters are such names. Returns "" if the parameter has no module.
std::string module_name(const Naming& naming, Role role);

// Returns the naming that matches the tensors of a file, or null if no family matches. `find` returns the
// tensor with a given name, or null. If the file lacks the prefix "transformer." of GPT models in
// transformers, sets `prefix_missing`. All names must then be used without the prefix.
const Naming* detect_naming(const ParamTable& table, const ModelConfig& config,
                            const std::function<const TensorInfo*(const std::string&)>& find,
                            bool& prefix_missing);

// Returns a tensor name without the prefix that base models of transformers (models without a head) omit.
std::string without_base_prefix(const std::string& name);

// Returns true for tensors in a state_dict that are not parameters, such as masks and rotary tables.
bool is_buffer_name(std::string_view name);

// Returns the name under which a file may contain the output matrix of a tied model again.
std::string head_name(const Naming& naming);

}  // namespace gpt

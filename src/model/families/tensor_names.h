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
  // Queries, keys and values. If one matrix contains all three, stacked by rows, only the first name is set.
  LayerNames qkv = {};
  // Attention output projection, and up, down and gate projections of the MLP.
  LayerNames linear = {};
  // True if the matrices of layers are stored as [in,out] (Conv1D of transformers).
  bool transposed_blocks = false;
  std::array<const char*, 2> words = {"weight", "bias"};  // values of {1}
  std::array<const char*, 2> norm_words = {"weight", "bias"};
};

// The place of a parameter in a file: rows [first_row, first_row + out) of a tensor. If `transposed` is set,
// the tensor is stored as [in,out].
struct FilePlace {
  std::string tensor;  // empty: this kind of file does not contain the parameter
  Shape file_shape;    // shape of the whole tensor
  int64_t first_row = 0;
  bool transposed = false;
};

FilePlace file_place(const Naming& naming, const ModelConfig& config, const ParamSpec& spec);

// Returns the name that a program uses for the module of a parameter, such as "c_attn" or "q_proj". LoRA
// adapters use these names in target_modules. Returns "" if the parameter has no module.
std::string module_name(const Naming& naming, Role role);

// Returns the naming that matches the tensors of a file, or null if no family matches. `find` returns the
// tensor with a given name, or null. Sets `prefix_missing` if the file omits the prefix "transformer." of GPT
// models in transformers. The caller must then omit the prefix in all names.
const Naming* detect_naming(const ParamTable& table, const ModelConfig& config,
                            const std::function<const TensorInfo*(const std::string&)>& find,
                            bool& prefix_missing);

// Returns a tensor name without the prefix that base models of transformers (models without a head) omit.
std::string without_base_prefix(const std::string& name);

// Returns true for tensors in a state_dict that are not parameters, such as masks and rotary tables.
bool is_buffer_name(std::string_view name);

// Returns the name of the output matrix. A file of a tied model may contain a second copy of the matrix with
// this name.
std::string head_name(const Naming& naming);

}  // namespace gpt

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convert/adapter_files.h"
#include "io/safetensors_writer.h"
#include "io/tensor_info.h"

// Code that is shared by the adapter formats of PEFT and llama.cpp.

namespace gpt {

// Returns the matrices for which an adapter can be loaded: the matrices of the transformer blocks, followed
// by the head. Adapters that this program trains never include the head. In a model with tied embeddings, the
// head is the matrix of the embedding, and the adapter changes only the product with the head.
std::vector<AdapterModule> loadable_modules(const Model& model, const Naming& naming);

// Collects the tensors of an adapter's file by module.
class AdapterTensors {
 public:
  // `what` names the file in errors.
  AdapterTensors(const Model& model, std::string what) : model_(model), what_(std::move(what)) {}

  // Adds the matrix A (half 0) or B (half 1) of a module. Throws Error if its shape or dtype does not fit.
  void add(const AdapterModule& module, size_t half, const TensorInfo& tensor);
  // Creates the adapter. `layout` is the RoPE layout of the rows in the file. Throws Error if a matrix A or B
  // is missing or has non-finite values.
  std::shared_ptr<const Adapter> make(
      const std::function<double(const AdapterModule& module, int64_t rank)>& scale, RopeLayout layout,
      double dropout, Device* device) const;

 private:
  struct Pair {
    AdapterModule module;
    const TensorInfo* halves[2] = {nullptr, nullptr};
  };
  const Model& model_;
  std::string what_;
  std::map<int, Pair> pairs_;  // keys are the modules' first parameters
};

// Returns A or B, multiplied by `factor`, as a tensor for a file with the given RoPE layout.
NamedTensor adapter_tensor(std::string name, const Model& model, const TensorView& view,
                           const LowRank& product, bool is_b, RopeLayout layout, double factor);

// Shortens full module names in the targets to names inside a transformer block, if all blocks have the same
// targets.
AdapterSettings with_short_targets(AdapterSettings settings, const std::vector<AdapterModule>& modules,
                                   const ParamTable& table);

bool is_gguf_adapter(const std::string& path);
LoadedAdapter load_gguf_adapter(const std::string& path, const Model& model, Device* device);
AdapterFacts gguf_adapter_facts(const std::string& path);

}  // namespace gpt

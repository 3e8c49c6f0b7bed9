#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convert/adapter_files.h"
#include "io/safetensors_writer.h"
#include "io/tensor_info.h"

// What the files of adapters have in common.

namespace gpt {

// The matrices that an adapter may have that is loaded: those of the blocks, which one that is trained here
// may have too, and at last the head. In a tied model that is the embedding's matrix, of which only the
// product with the head changes.
std::vector<AdapterModule> loadable_modules(const Model& model, const Naming& naming);

// The tensors of an adapter's file, by the modules that they are for.
class AdapterTensors {
 public:
  // what: names the file in errors.
  AdapterTensors(const Model& model, std::string what) : model_(model), what_(std::move(what)) {}

  // half: 0 for A, 1 for B. Throws Error for a shape or a type that does not fit.
  void add(const AdapterModule& module, size_t half, const TensorInfo& tensor);
  // layout: in which the file has the rows of heads that are rotated. Throws Error for a half that is missing
  // and numbers that are not finite.
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
  std::map<int, Pair> pairs_;  // by the first parameter
};

// A or B as a tensor of a file with that layout of rows, times a factor.
NamedTensor adapter_tensor(std::string name, const Model& model, const TensorView& view,
                           const LowRank& product, bool is_b, RopeLayout layout, double factor);

// Targets that are full names of modules as names inside a block, where every block has them all.
AdapterSettings with_short_targets(AdapterSettings settings, const std::vector<AdapterModule>& modules,
                                   const ParamTable& table);

bool is_gguf_adapter(const std::string& path);
LoadedAdapter load_gguf_adapter(const std::string& path, const Model& model, Device* device);
AdapterFacts gguf_adapter_facts(const std::string& path);

}  // namespace gpt

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/param_table.h"
#include "tensor/buffer.h"

namespace gpt {

// The offsets of the trainable parameters in a buffer, in elements. -1: the parameter is not in the buffer.
struct ParamLayout {
  explicit ParamLayout(const ParamTable& table);
  std::vector<int64_t> offset;  // indexed by parameter id
  int64_t elements = 0;         // total number of elements, including padding
};

// One aligned buffer for all trainable parameters, in the order of the table. Weights, gradients and moments
// each have their own ParamBuffer. Parameters with consecutive ids form a contiguous range of the buffer,
// including padding. An optional second buffer holds the frozen parameters, if their weights are initialized
// or loaded into memory.
class ParamBuffer {
 public:
  ParamBuffer() = default;
  ParamBuffer(const ParamTable& table, DType dtype, const char* what, Device* device = nullptr,
              bool with_frozen = false);

  TensorView operator[](int id) const { return views_[static_cast<size_t>(id)]; }
  std::span<const TensorView> views() const { return views_; }
  DType dtype() const { return dtype_; }
  TensorView range(int64_t begin, int64_t end) const;  // elements [begin, end) of the whole buffer
  void drop(int64_t begin,
            int64_t end) const;  // returns the memory of these elements to the system (Buffer::drop)
  TensorView all() const;        // all trainable parameters as [elements]; padding is zero

 private:
  Buffer buffer_, frozen_;
  DType dtype_ = DType::f32;
  int64_t elements_ = 0;
  std::vector<TensorView> views_;
};

// Returns the number of elements of a ParamBuffer without frozen parameters, including padding.
inline int64_t param_buffer_elements(const ParamTable& table) {
  return ParamLayout(table).elements;
}

// Returns the number of elements of the second buffer, which holds the frozen parameters.
int64_t frozen_elements(const ParamTable& table);

// Fills all allocated weights with their initial values. Element i of a parameter only depends on (seed, id,
// i). Parameters before first_id stay unchanged. filled: called after each parameter has been filled.
void init_params(const ParamTable& table, const ParamBuffer& weights, uint64_t seed, int first_id = 0,
                 const std::function<void(int id)>& filled = {});

// Returns the parameters `first` to `last` as one matrix, stacked by rows. Returns an empty view if they are
// not contiguous in memory.
TensorView glued_view(std::span<const TensorView> views, int first, int last);

}  // namespace gpt

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/param_table.h"
#include "tensor/buffer.h"

namespace gpt {

// Where the parameters that are trained lie in a buffer, in elements; -1: not there.
struct ParamLayout {
  explicit ParamLayout(const ParamTable& table);
  std::vector<int64_t> offset;  // by parameter id
  int64_t elements = 0;         // padding included
};

// One aligned buffer with a place for every parameter that is trained, in table order: weights, gradients and
// moments are each one of these. A range of parameters is a range of the buffer. Those that are frozen may
// have a buffer beside it: weights that are made or read here.
class ParamBuffer {
 public:
  ParamBuffer() = default;
  ParamBuffer(const ParamTable& table, DType dtype, const char* what, Device* device = nullptr,
              bool with_frozen = false);

  TensorView operator[](int id) const { return views_[static_cast<size_t>(id)]; }
  std::span<const TensorView> views() const { return views_; }
  DType dtype() const { return dtype_; }
  TensorView range(int64_t begin, int64_t end) const;  // elements of the whole buffer
  void drop(int64_t begin, int64_t end) const;         // gives their memory back (Buffer::drop)
  TensorView all() const;  // all that are trained as [elements]; padding between parameters is zero

 private:
  Buffer buffer_, frozen_;
  DType dtype_ = DType::f32;
  int64_t elements_ = 0;
  std::vector<TensorView> views_;
};

// The number of elements of such a buffer, padding included, without those that are frozen.
inline int64_t param_buffer_elements(const ParamTable& table) {
  return ParamLayout(table).elements;
}

// The number of elements of the frozen ones beside it.
int64_t frozen_elements(const ParamTable& table);

// Fills the weights that are there with their starting values; element i of a parameter depends on
// (seed, id, i) alone. Those before first_id stay as they are. filled: called for each when it is there.
void init_params(const ParamTable& table, const ParamBuffer& weights, uint64_t seed, int first_id = 0,
                 const std::function<void(int id)>& filled = {});

// The matrix that several contiguous_with_previous parameters form: rows of `first` to rows of `last`, when
// they lie directly one behind the other in memory; else an empty view.
TensorView glued_view(std::span<const TensorView> views, int first, int last);

}  // namespace gpt

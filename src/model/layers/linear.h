#pragma once

#include <optional>
#include <vector>

#include "model/forward_context.h"
#include "model/param_table.h"

namespace gpt {

// One linear layer, or several with the same input whose outputs stand side by side in the columns of y
// (q|k|v, gate|fc). Where the weights are packed, or lie behind each other in memory, they are one matrix.
class Linear {
 public:
  struct Part {
    int weight;
    int bias;  // -1: none
  };
  Linear() = default;
  Linear(const ParamTable& table, std::vector<Part> parts);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // An activation applied to the result, in the same pass over memory.
  struct Epilogue {
    std::optional<Activation> act = {};
    TensorView pre = {};  // [N,out] its argument: written in forward; in backward that of x [N,in]
  };
  // y [N,out] = act(x [N,in] w^T + bias), plus what the adapters of rows add before act; with these and an
  // activation `pre` must be there.
  void forward(const ForwardContext& pass, const TensorView& x, const TensorView& y,
               const Epilogue& act) const;
  void forward(const ForwardContext& pass, const TensorView& x, const TensorView& y) const {
    forward(pass, x, y, {});
  }
  // Gradients of the parameters, an adapter's too; and of x, added to dx with `accumulate_dx`. An absent dx
  // is skipped. With an activation x = act(pre), and dx is the gradient of pre.
  void backward(const BackwardContext& pass, const TensorView& x, const TensorView& dy, const TensorView& dx,
                bool accumulate_dx, const Epilogue& act) const;
  void backward(const BackwardContext& pass, const TensorView& x, const TensorView& dy, const TensorView& dx,
                bool accumulate_dx) const {
    backward(pass, x, dy, dx, accumulate_dx, {});
  }

 private:
  struct Columns {
    int first, last;   // parts
    int64_t begin, n;  // columns of y
  };
  // y = act(x w^T + bias), without adapters.
  void multiply(const ForwardContext& pass, const TensorView& x, const TensorView& y,
                const Epilogue& act) const;
  bool is_adapted(const RowsAdapter& rows) const;
  bool has_adapter(const ForwardContext& pass) const;
  template <class F>
  void for_adapters(const ForwardContext& pass, const TensorView& y, F&& fn) const;
  void add_adapters(const ForwardContext& pass, const TensorView& x, const TensorView& y) const;
  void backward_adapters(const BackwardContext& pass, const TensorView& x, const TensorView& dy,
                         const TensorView& dx) const;
  int last() const { return static_cast<int>(parts_.size()) - 1; }
  Columns all() const { return {0, last(), 0, out_}; }
  // The packed form of some parts; absent if there is none.
  PackedMatrix packed(const ForwardContext& pass, int first, int last, bool transposed) const;
  // The matrix or the vector that some parts form in memory; absent where they do not.
  TensorView weights(std::span<const TensorView> views, const Columns& c) const;
  TensorView biases(std::span<const TensorView> views, const Columns& c) const;
  template <class F>
  void for_products(bool together, F&& fn) const;

  std::vector<Part> parts_;
  std::vector<int64_t> widths_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace gpt

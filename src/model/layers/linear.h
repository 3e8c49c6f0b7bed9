#pragma once

#include <optional>
#include <vector>

#include "model/forward_context.h"
#include "model/param_table.h"

namespace gpt {

// One linear layer, or several linear layers with the same input whose outputs are adjacent columns of y
// (q|k|v, gate|up). If the weights are packed together or contiguous in memory, all of these layers are
// computed as one matmul.
class Linear {
 public:
  struct Part {
    int weight;
    int bias;  // -1: no bias
  };
  Linear() = default;
  Linear(const ParamTable& table, std::vector<Part> parts);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // An activation that is fused with the matmul.
  struct Epilogue {
    std::optional<Activation> act = {};
    // Input of an activation. `forward` applies the activation to the output and writes its input here,
    // [N,out]. `backward` reads the input of the previous activation, whose output was x, [N,in].
    TensorView pre = {};
  };
  // Computes y [N,out] = act(x [N,in] w^T + bias). Adapters add their low-rank product before the activation.
  // With adapters and an activation, act.pre is required.
  void forward(const ForwardContext& pass, const TensorView& x, const TensorView& y,
               const Epilogue& act) const;
  void forward(const ForwardContext& pass, const TensorView& x, const TensorView& y) const {
    forward(pass, x, y, {});
  }
  // Computes the gradients of the parameters, including adapter parameters. Also writes the gradient of x to
  // dx, or adds it to dx if accumulate_dx is true. If dx is absent, this gradient is not computed. With an
  // activation, x = act(pre), and dx is the gradient of `pre` instead.
  void backward(const BackwardContext& pass, const TensorView& x, const TensorView& dy, const TensorView& dx,
                bool accumulate_dx, const Epilogue& act) const;
  void backward(const BackwardContext& pass, const TensorView& x, const TensorView& dy, const TensorView& dx,
                bool accumulate_dx) const {
    backward(pass, x, dy, dx, accumulate_dx, {});
  }

 private:
  struct Columns {
    int first, last;   // indices of the first and the last part
    int64_t begin, n;  // first column of y, and number of columns
  };
  // Computes y = act(x w^T + bias) without adapters.
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
  // Returns the packed matrix of the parts `first` to `last`, or an absent matrix if there is none.
  PackedMatrix packed(const ForwardContext& pass, int first, int last, bool transposed) const;
  // Return the matrix or bias vector of some parts as one view, or an absent view if they are not contiguous
  // in memory.
  TensorView weights(std::span<const TensorView> views, const Columns& c) const;
  TensorView biases(std::span<const TensorView> views, const Columns& c) const;
  template <class F>
  void for_products(bool together, F&& fn) const;

  std::vector<Part> parts_;
  std::vector<int64_t> widths_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace gpt

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/inference.h"

namespace gpt {

// One intermediate result under the name that files and pages use for it: "blocks.0.norm1.out".
struct NamedActivation {
  std::string name;
  TensorView view;  // [T,...]; a column slice where it lies beside others
  Shape shape;      // with heads apart: queries are [T,H,D]
};

// What one block computes. With pre-norm: in, norm1_out, qkv, heads, mid = in + attention_out, norm2_out,
// mlp, out = mid + mlp_out. With post-norm: in, qkv, heads, mid, norm1_out, mlp, sum = norm1_out + mlp_out,
// out.
struct BlockTrace {
  TensorView in, out, mid;                 // [T,C] the residual stream
  TensorView norm1_out, norm2_out;         // [T,C] the latter with pre-norm only
  TensorView qkv_projected, qk_rotated;    // [T,(H+2Hkv)D]; [T,(H+Hkv)D] before QK norm, only with it
  TensorView qkv;                          // [T,(H+2Hkv)D] what attention reads
  TensorView weights;                      // [1,H,T,T] attention weights
  TensorView heads, attention_out;         // [T,H*D], [T,C]
  TensorView mlp_fc, mlp_hidden, mlp_out;  // [T,F] or [T,2F], the gate first; [T,F]; [T,C]
  TensorView sum;                          // [T,C] post-norm only
};

// One forward pass over a prompt with every intermediate result kept: an observer of inference, so the logits
// and attention weights have the bits that inference gives.
class Capture : private Observer {
 public:
  struct Options {
    DType dtype = DType::f32;           // of activations: fp32, or fp64 with reference kernels
    std::optional<DType> weights = {};  // what products with weights are computed in (dtype)
  };
  // Runs the pass. Throws Error for no ids, ids out of range, more than n_ctx of them, or a prompt whose
  // results need more memory than kMaxBytes. `model` and the pool must outlive it.
  Capture(const Model& model, const Backend& backend, std::span<const int32_t> ids, Options options);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  static constexpr int64_t kMaxBytes = int64_t{6} << 30;

  const ModelConfig& config() const { return model_.config; }
  const Model& model() const { return model_; }
  std::span<const int32_t> ids() const { return ids_; }
  int64_t n_tokens() const { return static_cast<int64_t>(ids_.size()); }
  int64_t n_layer() const { return model_.config.n_layer; }
  int64_t bytes() const { return planner_.bytes(); }

  TensorView token_rows() const { return token_rows_; }        // [T,C] what the ids alone look up
  TensorView position_rows() const { return position_rows_; }  // [T,C] learned positions, or absent
  // What goes into the first block is residual(0), what leaves block i is residual(i + 1).
  TensorView residual(int64_t i) const { return residual_[static_cast<size_t>(i)]; }  // [T,C]
  TensorView embedding_sum() const { return embedding_sum_; }  // [T,C] before the embedding norm, or absent
  const BlockTrace& block(int64_t layer) const { return blocks_[static_cast<size_t>(layer)]; }
  TensorView normed() const { return normed_; }  // [T,C] absent without a final norm
  TensorView logits() const { return logits_; }  // [T,V] softcapped

  // Everything above by name, in the order of the pass; attention weights too, as [H,T,T].
  std::vector<NamedActivation> activations() const;

  // The logit lens (nostalgebraist 2020): the model's own final norm and head on a residual stream [T,C].
  // Writes logits [T,V].
  void read_out(const TensorView& stream, const TensorView& logits);

 private:
  void on_tensor(int64_t layer, std::string_view name, const TensorView& view) override;
  TensorView attention_weights(int64_t layer) override;
  TensorView place(int64_t layer, std::string_view name) const;

  void check() const;
  void plan();
  void plan_block(BlockTrace& block);
  void run();
  void add_block(std::vector<NamedActivation>& out, int64_t layer) const;

  const Model& model_;
  Backend backend_;
  std::vector<int32_t> ids_;
  Planner planner_;
  Buffer arena_;
  std::optional<Inference> inference_;
  std::vector<TensorView> residual_;  // [n_layer + 1]
  std::vector<BlockTrace> blocks_;
  Buffer attention_;  // the weights of a layer, where ops cannot write those that are kept
  TensorView token_rows_, position_rows_, embedding_sum_, normed_, logits_;
};

}  // namespace gpt

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/inference.h"

namespace gpt {

// An intermediate result and its name in files and pages, such as "blocks.0.norm1.out".
struct NamedActivation {
  std::string name;
  TensorView view;  // [T,...]; a column slice if other results are stored in the same rows
  Shape shape;      // shape with a separate head dimension: queries are [T,H,D]
};

// The intermediate results of one layer. With pre-norm, the order is: in, norm1_out, qkv, heads, mid = in +
// attention_out, norm2_out, mlp, out = mid + mlp_out. With post-norm, the order is: in, qkv, heads, mid,
// norm1_out, mlp, sum = norm1_out + mlp_out, out.
struct BlockTrace {
  TensorView in, out, mid;          // [T,C] residual stream
  TensorView norm1_out, norm2_out;  // [T,C]; norm2_out exists with pre-norm only
  // qkv_projected is [T,(H+2Hkv)D]. qk_rotated is [T,(H+Hkv)D]: queries and keys after rotation and before QK
  // norm; only with QK norm.
  TensorView qkv_projected, qk_rotated;
  TensorView qkv;                   // [T,(H+2Hkv)D] input of attention
  TensorView weights;               // [1,H,T,T]
  TensorView heads, attention_out;  // [T,H*D], [T,C]
  // mlp_fc is [T,F], or [T,2F] with the gate first. mlp_hidden is [T,F] and mlp_out is [T,C].
  TensorView mlp_fc, mlp_hidden, mlp_out;
  TensorView sum;  // [T,C]; exists with post-norm only
};

// Runs one forward pass over a prompt and keeps every intermediate result. Capture observes a regular
// inference pass, so its logits and attention weights are bit-identical to those of inference.
class Capture : private Observer {
 public:
  struct Options {
    DType dtype = DType::f32;           // dtype of activations: fp32, or fp64 with reference kernels
    std::optional<DType> weights = {};  // dtype of matmuls with weights; unset: `dtype`
  };
  // Runs the forward pass. Throws Error if there are no ids, if an id is out of range, if there are more than
  // n_ctx ids, or if the results need more than kMaxBytes of memory. `model` and the thread pool of the
  // backend must outlive this object.
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

  TensorView token_rows() const { return token_rows_; }        // [T,C] token embeddings without positions
  TensorView position_rows() const { return position_rows_; }  // [T,C] learned position embeddings, or absent
  // residual(0) is the input of the first layer, and residual(i + 1) is the output of layer i.
  TensorView residual(int64_t i) const { return residual_[static_cast<size_t>(i)]; }  // [T,C]
  TensorView embedding_sum() const { return embedding_sum_; }  // [T,C] input of the embedding norm, or absent
  const BlockTrace& block(int64_t layer) const { return blocks_[static_cast<size_t>(layer)]; }
  TensorView normed() const { return normed_; }  // [T,C] output of the final norm, or absent
  TensorView logits() const { return logits_; }  // [T,V] after the softcap

  // Returns all intermediate results with their names, in the order of the forward pass. Attention weights
  // are included as [H,T,T].
  std::vector<NamedActivation> activations() const;

  // Applies the model's final norm and head to a residual stream [T,C] and writes the logits [T,V]. This is
  // the logit lens (nostalgebraist 2020).
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
  Buffer attention_;  // attention weights of one layer on a device whose ops cannot write host memory
  TensorView token_rows_, position_rows_, embedding_sum_, normed_, logits_;
};

}  // namespace gpt

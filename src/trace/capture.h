#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/planner.h"
#include "model/rope_table.h"

namespace gpt {

// One intermediate result under the name that files and pages use for it: "blocks.0.norm1.out".
struct NamedActivation {
  std::string name;
  TensorView view;  // [T,...]; a column slice where it lies beside others
  Shape shape;      // with heads apart: queries are [T,H,D]
};

// One forward pass over a prompt with every intermediate result kept: the layers of the model itself run,
// with the operations of inference, so the logits and attention weights have the bits that inference gives.
class Capture {
 public:
  struct Options {
    DType dtype = DType::f32;           // of activations: fp32, or fp64 with reference kernels
    std::optional<DType> weights = {};  // what products with weights are computed in (dtype)
  };
  // Runs the pass. Throws Error for no ids, ids out of range, more than n_ctx of them, or a prompt whose
  // results need more memory than kMaxBytes. `model` and the pool must outlive it.
  Capture(const Model& model, ThreadPool& pool, const KernelTable& kernels, std::span<const int32_t> ids,
          Options options);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  static constexpr int64_t kMaxBytes = int64_t{6} << 30;

  const ModelConfig& config() const { return config_; }
  const Model& model() const { return model_; }
  std::span<const int32_t> ids() const { return ids_; }
  int64_t n_tokens() const { return static_cast<int64_t>(ids_.size()); }
  int64_t n_layer() const { return config_.n_layer; }
  int64_t bytes() const { return planner_.bytes(); }

  TensorView token_rows() const { return token_rows_; }  // [T,C] what the ids alone look up
  TensorView position_rows() const;                      // [T,C] learned positions, or absent
  // What goes into the first block is residual(0), what leaves block i is residual(i + 1).
  TensorView residual(int64_t i) const { return residual_[static_cast<size_t>(i)]; }  // [T,C]
  const EmbeddingActs& embedding() const { return embedding_; }
  // All of a block. With pre-norm: x_in, norm1_out, attention, x_mid = x_in + attention_out, norm2_out, mlp,
  // x_out = x_mid + mlp_out. See BlockActs for post-norm.
  const BlockActs& block(int64_t layer) const { return acts_[static_cast<size_t>(layer)]; }
  TensorView attention(int64_t layer) const { return attention_[static_cast<size_t>(layer)]; }  // [1,H,T,T]
  TensorView normed() const { return head_.normed; }                                            // [T,C]
  TensorView logits() const { return logits_; }  // [T,V] softcapped

  // Everything above by name, in the order of the pass; attention weights too, as [H,T,T].
  std::vector<NamedActivation> activations() const;

  // The logit lens (nostalgebraist 2020): the model's own final norm and head on a residual stream [T,C].
  // Writes logits [T,V].
  void read_out(const TensorView& stream, const TensorView& logits);

 private:
  void check(int64_t n_ctx) const;
  void plan();
  void plan_block(int64_t layer);
  void run();
  Pass make_pass(const ExecContext& ctx) const;
  void add_block(std::vector<NamedActivation>& out, int64_t layer) const;

  const Model& model_;
  ModelConfig config_;  // of the model, without dropout
  ThreadPool& pool_;
  const KernelTable& kernels_;
  Options options_;
  std::vector<int32_t> ids_, positions_;
  std::vector<AttentionSeq> seqs_;
  Planner planner_;
  Buffer arena_;
  Workspace workspace_;
  RopeTable rope_;
  std::vector<TensorView> residual_;  // [n_layer + 1]
  std::vector<BlockActs> acts_;
  std::vector<TensorView> attention_;
  EmbeddingActs embedding_;
  HeadActs head_;
  TensorView token_rows_, lens_normed_, logits_;
};

}  // namespace gpt

#pragma once

#include "infer/decoder.h"
#include "model/inference.h"

namespace gpt {

// A model as generation sees it: fp32, one cache slot per sequence. With `slide` in the options sequences
// may grow past the context.
class ModelDecoder : public Decoder {
 public:
  ModelDecoder(const Model& model, ThreadPool& pool, const KernelTable& kernels, Inference::Options options);

  int64_t vocab_size() const override { return inference_.config().vocab_size; }
  int64_t n_ctx() const override { return inference_.config().n_ctx; }
  int slots() const override { return inference_.slots(); }
  bool can_slide() const override { return slide_; }
  void forward(std::span<const Append> batch, float* logits) override;
  void reset(int slot) override { inference_.reset(slot); }
  void copy(int from_slot, int to_slot) override { inference_.copy(from_slot, to_slot); }
  int64_t length(int slot) const override { return inference_.length(slot); }

 private:
  Inference inference_;
  bool slide_;
  std::vector<float> unwanted_;  // logits that nobody asked for
};

}  // namespace gpt

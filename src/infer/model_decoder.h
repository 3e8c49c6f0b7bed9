#pragma once

#include "infer/decoder.h"
#include "model/inference.h"

namespace gpt {

// A model as generation sees it: sequences in the slots of a key/value cache, in fp32.
class ModelDecoder : public Decoder {
 public:
  struct Options {
    int slots = 1;
    // The longest sequence there will be, prompt and output together; 0: unknown. Only memory depends on
    // it: the cache is not larger than this (a context may be huge).
    int64_t longest = 0;
    bool slide = false;  // can_slide, where the model's positions allow it
  };
  // The model, the pool and the kernels must outlive this.
  ModelDecoder(const Model& model, ThreadPool& pool, const KernelTable& kernels, Options options);

  int64_t vocab_size() const override { return inference_.config().vocab_size; }
  int64_t n_ctx() const override { return inference_.config().n_ctx; }
  int slots() const override { return inference_.slots(); }
  bool can_slide() const override { return slide_; }
  void forward(std::span<const Append> batch, float* logits) override;
  void reset(int slot) override { inference_.reset(slot); }
  void copy(int from_slot, int to_slot) override { inference_.copy(from_slot, to_slot); }
  int64_t length(int slot) const override { return inference_.length(slot); }

  int64_t bytes() const { return inference_.bytes(); }

  // Bytes of cache that one slot takes for sequences of up to `longest` tokens.
  static int64_t slot_bytes(const ModelConfig& config, int64_t longest);

 private:
  bool slide_;
  Inference inference_;
  Buffer unwanted_logits_;
  std::vector<Inference::Append> appends_;
};

}  // namespace gpt

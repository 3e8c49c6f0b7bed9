#pragma once

#include "infer/sequence_model.h"

namespace gpt {

// Implements SequenceModel with an Inference and its KV cache. `inference` must outlive the object. Not
// thread-safe.
class CachedModel : public SequenceModel {
 public:
  // `slides` must be true if `inference` was created with Options::slide. `adapter` is the default adapter
  // for sequences.
  CachedModel(Inference& inference, bool slides, int adapter = -1)
      : inference_(inference), slides_(slides), adapter_(adapter) {}

  const Backend& backend() const override { return inference_.backend(); }
  int64_t vocab_size() const override { return inference_.config().vocab_size; }
  int64_t n_ctx() const override { return inference_.capacity(); }
  int slots() const override { return inference_.slots(); }
  bool can_slide() const override { return slides_; }
  int64_t max_rows() const override { return inference_.max_rows(); }
  void forward(std::span<const Append> batch, const TensorView& logits) override {
    inference_.append(batch, logits);
  }
  void reset(int slot, int adapter = -1, uint64_t salt = 0) override {
    inference_.reset(slot, chosen(adapter), salt);
  }
  int adapters() const override { return inference_.adapters(); }
  void truncate(int slot, int64_t n) override { inference_.truncate(slot, n); }
  bool can_truncate(int slot, int64_t n) const override { return inference_.can_truncate(slot, n); }
  bool can_roll_back() const override { return inference_.can_roll_back(); }
  void copy(int from_slot, int to_slot) override { inference_.copy(from_slot, to_slot); }
  int64_t length(int slot) const override { return inference_.length(slot); }
  int64_t room(int slot) const override { return inference_.room(slot); }
  bool reserve(int slot, int64_t n) override { return inference_.reserve(slot, n); }
  int64_t reuse(int slot, std::span<const int32_t> ids) override { return inference_.reuse(slot, ids); }
  Prospect prospect(std::span<const int32_t> ids, int adapter = -1, uint64_t salt = 0) const override {
    return inference_.prospect(ids, chosen(adapter), salt);
  }
  int64_t available_blocks() const override { return inference_.available_blocks(); }

 private:
  int chosen(int adapter) const { return adapter >= 0 ? adapter : adapter_; }

  Inference& inference_;
  bool slides_;
  int adapter_;
};

}  // namespace gpt

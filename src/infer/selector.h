#pragma once

#include <vector>

#include "kernels/backend.h"
#include "tensor/device.h"

namespace gpt {

// Asks select_candidates for rows of logits and holds what it finds. Used again and again it allocates
// nothing once it has seen its largest call.
class Selector {
 public:
  Selector(const Backend& backend, int64_t vocab_size);

  // What is asked; where scores go is decided here.
  std::vector<SelectRow> rows;
  std::vector<ScoreChange> changes;
  std::vector<uint64_t> allowed;  // rows of ceil(V/64) words, for those with an allowed_row

  // logits [N,V] in memory of the backend, as long as results are read.
  void run(const TensorView& logits);

  // Of rows[i]. Throws Error when a logit is NaN or infinite.
  const Selection& selection(size_t i) const;
  std::span<TokenScore> candidates(size_t i);  // all of them
  // The scores of all V tokens, of a row that asks for neither candidates nor log_sum.
  std::span<const float> scores(size_t i) const;
  // Returns the logits of tokens, valid until the next call. Waits for the device once.
  struct Token {
    size_t row;  // index in rows
    int32_t id;
  };
  std::span<const float> logits(std::span<const Token> tokens);

 private:
  TensorView device_scores(const SelectRow& row) const;
  TensorView device_logit(const Token& token) const;
  void enqueue_scores();
  Backend backend_;
  int64_t vocab_size_;
  Workspace workspace_;
  TensorView logits_;
  Buffer scores_;
  int64_t capacity_ = 0;
  std::vector<Selection> selections_;
  std::vector<TokenScore> candidates_;
  std::vector<const float*> host_scores_;  // by row; null: its scores are not read
  std::vector<float> score_copies_;        // of a device
  std::vector<float> token_logits_;
  DeviceArray<SelectRow> device_rows_;
  DeviceArray<ScoreChange> device_changes_;
  DeviceArray<uint64_t> device_allowed_;
  DeviceArray<Selection> device_selections_;
  DeviceArray<TokenScore> device_candidates_;
};

}  // namespace gpt

#pragma once

#include <vector>

#include "kernels/backend.h"
#include "tensor/device.h"

namespace gpt {

// Calls the op select_candidates for rows of logits and stores the results. Only allocates memory if a call
// needs more memory than all previous calls.
class Selector {
 public:
  Selector(const Backend& backend, int64_t vocab_size);

  // The input of `run`. `run` sets scores_row in the rows.
  std::vector<SelectRow> rows;
  std::vector<ScoreChange> changes;
  std::vector<uint64_t> allowed;  // token masks of ceil(V/64) words each, for rows with an allowed_row

  // Runs the op. `logits` is [N,V] in memory of the backend and must stay valid while results are read.
  void run(const TensorView& logits);

  // Returns the result of rows[i]. Throws Error if a logit is NaN or infinite.
  const Selection& selection(size_t i) const;
  std::span<TokenScore> candidates(size_t i);  // returns the candidates of rows[i]
  // Returns the scores of all V tokens. The row must have neither candidates nor log_sum.
  std::span<const float> scores(size_t i) const;
  // Returns the logits of the given tokens. The result is valid until the next call. Waits for the device
  // once.
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
  std::vector<const float*> host_scores_;  // one pointer per row; null if the scores of the row are not read
  std::vector<float> score_copies_;        // downloaded from a device
  std::vector<float> token_logits_;
  DeviceArray<SelectRow> device_rows_;
  DeviceArray<ScoreChange> device_changes_;
  DeviceArray<uint64_t> device_allowed_;
  DeviceArray<Selection> device_selections_;
  DeviceArray<TokenScore> device_candidates_;
};

}  // namespace gpt

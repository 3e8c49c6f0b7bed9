#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/objective.h"

namespace gpt {

// Splits windows of text into documents. The attention treats each document as a separate sequence, and the
// positions of each document start at 0. The last token of a document has no target.
class PackedDocuments {
 public:
  // Marks the document boundaries in a text. Every document ends with the token `end`. Sets `starts` to 1 at
  // the position after each end token, and sets the target of each end token to -1. All arrays have the shape
  // [rows,n_ctx]. `starts` must be 0 on entry.
  static void mark(int32_t end, std::span<const int32_t> ids, std::span<int32_t> targets,
                   std::span<uint8_t> starts);
  // Stores the attention sequences in the batch. A sequence starts at the beginning of each window and at
  // each position whose value in `starts` [rows,n_ctx] is 1. If every window is a single sequence, the
  // function does not change the batch. The sequences are valid until the next call of `split`.
  void split(int64_t n_ctx, std::span<const uint8_t> starts, TrainBatch& batch);

 private:
  std::vector<int32_t> positions_;
  std::vector<AttentionSeq> seqs_;
};

}  // namespace gpt

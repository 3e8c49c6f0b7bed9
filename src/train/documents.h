#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/objective.h"

namespace gpt {

// Splits windows of text into documents. In attention, each document is a separate sequence whose positions
// start at 0. The last token of a document has no target.
class PackedDocuments {
 public:
  // Marks the document boundaries in a text whose documents end with the token `end`. Sets `starts` to 1 at
  // the position after each end token, and sets the target of each end token to -1. All arrays have the shape
  // [rows,n_ctx]. `starts` must be 0 on entry.
  static void mark(int32_t end, std::span<const int32_t> ids, std::span<int32_t> targets,
                   std::span<uint8_t> starts);
  // Sets the attention sequences of the batch. A sequence starts at the beginning of each window and at each
  // 1 in `starts` [rows,n_ctx]. Leaves the batch unchanged if every window is a single sequence. The
  // sequences are valid until the next call of `split`.
  void split(int64_t n_ctx, std::span<const uint8_t> starts, TrainBatch& batch);

 private:
  std::vector<int32_t> positions_;
  std::vector<AttentionSeq> seqs_;
};

}  // namespace gpt

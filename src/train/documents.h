#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/objective.h"

namespace gpt {

// Splits windows of text into documents. For attention, each document is a separate sequence whose positions
// start at 0. The last token of a document has no target.
class PackedDocuments {
 public:
  // Marks the documents of text in which the token `end` ends each document: sets `starts` to 1 after each
  // end token, and the target of the end token to -1. All arrays are [rows,n_ctx]; `starts` must be 0 on
  // entry.
  static void mark(int32_t end, std::span<const int32_t> ids, std::span<int32_t> targets,
                   std::span<uint8_t> starts);
  // Sets the sequences of the batch: one starts at each window and at each 1 in `starts` [rows,n_ctx]. Leaves
  // the batch unchanged if every window is one sequence. The sequences are valid until the next call.
  void split(int64_t n_ctx, std::span<const uint8_t> starts, TrainBatch& batch);

 private:
  std::vector<int32_t> positions_;
  std::vector<AttentionSeq> seqs_;
};

}  // namespace gpt

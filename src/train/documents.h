#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/objective.h"

namespace gpt {

// Windows of text that hold several documents: each is a sequence of its own for attention, its positions
// start at 0, and none is asked for the first token of the next.
class PackedDocuments {
 public:
  // Where each document ends with a token of its own: `starts` becomes 1 behind it, and targets at it -1. All
  // are [rows,n_ctx], and starts 0 before.
  static void mark(int32_t end, std::span<const int32_t> ids, std::span<int32_t> targets,
                   std::span<uint8_t> starts);
  // Gives the batch the sequences that begin where starts [rows,n_ctx] are 1, and at each window; valid until
  // the next call. Where there are no more than windows the batch stays as it is.
  void split(int64_t n_ctx, std::span<const uint8_t> starts, TrainBatch& batch);

 private:
  std::vector<int32_t> positions_;
  std::vector<AttentionSeq> seqs_;
};

}  // namespace gpt

#pragma once

#include <span>
#include <vector>

#include "model/objective.h"

namespace gpt {

// Windows of text that hold several documents, each of which ends with a token of its own: a document is a
// sequence of its own for attention, its positions start at 0, and none is asked for the first token of the
// next.
class PackedDocuments {
 public:
  // Targets [rows,n_ctx] at the ends of documents in ids are set to -1.
  static void mask_targets(int32_t end, std::span<const int32_t> ids, std::span<int32_t> targets);
  // Gives the batch the documents of ids [rows,n_ctx], which are valid until the next call.
  void split(int64_t n_ctx, int32_t end, std::span<const int32_t> ids, TrainBatch& batch);

 private:
  std::vector<int32_t> positions_;
  std::vector<AttentionSeq> seqs_;
};

}  // namespace gpt

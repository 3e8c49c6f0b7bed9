#pragma once

#include <cstdint>
#include <vector>

#include "distributed/communicator.h"
#include "kernels/backend.h"
#include "model/params.h"
#include "model/training_graph.h"

namespace gpt {

// How a buffer of gradients is divided among processes: it is cut into buckets, and each of these into a piece
// for every process, all at whole blocks of sums (kSumBlock).
class GradientPieces {
 public:
  GradientPieces(int64_t elements, int processes);

  struct Range {
    int64_t begin = 0, end = 0;  // elements
    int64_t size() const { return end - begin; }
  };
  int64_t buckets() const { return buckets_; }
  Range bucket(int64_t i) const;
  Range piece(int64_t bucket, int rank) const;
  int64_t elements_of(int rank) const;  // in all its pieces

 private:
  Range blocks(int64_t first, int64_t last) const;
  int64_t elements_, processes_, blocks_, bucket_blocks_, buckets_;
};

// The gradients of a batch, from those of its shards: runs of samples, each added up from zero. Rank r of R has
// the shards r, r + R, ...; in round j all have computed shards j R to j R + R - 1. Every piece is sent to the
// process that owns it as soon as the backward pass is through with it, and the owner adds the shards in their
// order, in fp32. So the sums depend on the number of shards and not on that of processes.
class GradientSums {
 public:
  // rounds: shards of each process. All that is given must outlive this.
  GradientSums(const ParamTable& table, const ParamBuffer& grads, int64_t rounds, Communicator& processes,
               const Backend& backend);

  // For the backward pass that completes a shard. Empty for a process by itself.
  TrainingGraph::Announce sending();
  // Adds the shards of a round, which has been sent; after the last round every process has the whole sums.
  void finish_round(int64_t round);

  // Of memory beside the gradients.
  static int64_t bytes(int64_t elements, DType dtype, int64_t rounds, int processes, int rank);

 private:
  bool overlaps(int id, int64_t bucket) const;
  void done(int id);
  void send(int64_t bucket);
  void add(int64_t bucket, int64_t round);
  void add_parts(const std::vector<TensorView>& parts, const TensorView& sum);
  void add_views(const TensorView& out, const TensorView& a, const TensorView& b);
  TensorView own(int64_t bucket) const;
  TensorView kept(const Buffer& buffer, int64_t row, int64_t bucket) const;
  TensorView received(int64_t bucket, int rank) const;
  void gather_pieces();

  const ParamTable& table_;
  const ParamBuffer& grads_;
  int64_t rounds_;
  Communicator& processes_;
  Backend backend_;
  GradientPieces pieces_;
  ParamLayout layout_;
  std::vector<int64_t> own_offset_;  // of the own pieces, one behind the other, by bucket
  std::vector<int> parameters_;      // that have a part in each bucket ...
  std::vector<int> pending_;         // ... and of these, those whose gradients are not done
  Buffer received_;                  // the own pieces of the other ranks: [R - 1, own elements]
  Buffer total_;                     // [own elements], with several rounds
  std::vector<Communicator::Handle> sends_;  // of this round, under way
};

}  // namespace gpt

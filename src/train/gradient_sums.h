#pragma once

#include <cstdint>
#include <vector>

#include "distributed/communicator.h"
#include "kernels/backend.h"
#include "model/params.h"
#include "model/training_graph.h"
#include "train/buckets.h"

namespace gpt {

// Adds the gradients of the shards of a batch (all-reduce or reduce-scatter). A shard is a range of samples
// whose gradients are accumulated from zero. Rank r of R computes the shards r, r + R, ...; in round j the
// ranks compute the shards j R to j R + R - 1. Each rank sends every piece to its owner as soon as the
// backward pass has finished the piece. The owner adds the shards in order, in fp32, as they arrive. The sums
// therefore depend on the number of shards and not on the number of ranks. The sums of the last round are
// sent to all ranks, also during the backward pass.
//
// With a single round, messages may have a narrower dtype than the gradients. Then pieces are rounded for
// sending and added to the owner's own part, which is not rounded. Sums that are sent to all ranks are
// rounded on every rank, including the owner.
class GradientSums {
 public:
  // The sums that a rank receives. all: all sums; own: the sums of its own pieces; own_memory: as own, and
  // the memory of other pieces is freed once they are sent, if each backward pass starts a new shard.
  enum class Keeps : uint8_t { all, own, own_memory };
  // rounds: shards of each rank. message_type: the dtype of grads, or bf16. All references must outlive this
  // object.
  GradientSums(const ParamTable& table, const ParamBuffer& grads, int64_t rounds, Keeps keeps,
               DType message_type, Communicator& processes, const Backend& backend);

  // Returns the hook for the backward pass that completes the shard of a round; empty for a single process.
  GradReadyHook sending(int64_t round);
  // Waits for the messages of a round and adds its shards. After the last round the gradients are the sums.
  void finish_round(int64_t round);

  const ShardMap& shard_map() const { return shard_map_; }  // the pieces of all ranks
  const ParamLayout& layout() const { return layout_; }
  // All-gathers x, which has one value for each element of the gradients, or one for each `block` elements.
  void gather(const TensorView& x, int64_t block, const ShardMap& shard_map, const char* what);
  // Moves gradient sums from the owners of the pieces to the ranks that `shard_map` assigns them to.
  void move_to(const ShardMap& shard_map);
  // Frees the memory of all pieces except the rank's own pieces.
  void drop_others() const;

  double waited_seconds() const { return waited_; }  // total time spent waiting for messages

  // Returns the bytes of memory used in addition to the gradients.
  static int64_t bytes(int64_t elements, DType dtype, DType message_type, int64_t rounds, int processes,
                       int rank);

 private:
  bool overlaps(int id, int64_t bucket) const;
  void done(int id, const DeviceEvent& event);
  void send(int64_t bucket);
  void complete_next();
  Communicator::Handle share_sums(int64_t bucket);
  void take_next();
  Communicator::Handle move_part(const ShardMap& shard_map, size_t range, int64_t bucket);
  void drop_others(int64_t bucket) const;
  void wait_for(std::vector<Communicator::Handle>& handles);
  void add(int64_t bucket, int64_t round);
  void add_parts(const std::vector<TensorView>& parts, const TensorView& sum);
  void add_views(const TensorView& out, const TensorView& a, const TensorView& b);
  TensorView own(int64_t bucket) const;
  TensorView total(int64_t bucket) const;
  TensorView received(size_t place, int64_t bucket, int rank) const;
  bool rounds_messages() const { return message_type_ != grads_.dtype(); }
  TensorView message(size_t place, int64_t bucket, const ElementRange& range) const;
  TensorView rounded(size_t place, int64_t bucket, int rank);
  void convert(const TensorView& from, const TensorView& to);

  const ParamTable& table_;
  const ParamBuffer& grads_;
  int64_t rounds_;
  Keeps keeps_;
  DType message_type_;
  Communicator& processes_;
  Backend backend_;
  Buckets buckets_;
  size_t in_flight_;  // the most buckets in flight
  size_t places_;     // buckets for which messages_ has room
  ShardMap shard_map_;
  ParamLayout layout_;
  int64_t own_elements_ = 0;
  std::vector<int64_t> own_offset_;  // offset of each own piece in total_, by bucket
  std::vector<int> parameters_;      // number of parameters with a part in each bucket ...
  std::vector<int> pending_;         // ... and the number of these whose gradients are pending
  int64_t round_ = 0;
  struct Sent {
    int64_t bucket;
    Communicator::Handle handle;
  };
  std::vector<Sent> sent_;                      // buckets sent in this round, in the same order on all ranks
  size_t completed_ = 0;                        // number of sent_ whose shards are added
  std::vector<Communicator::Handle> gathered_;  // transfers of sums to all ranks
  size_t taken_ = 0;                            // number of gathered_ whose sums are stored in the gradients
  Buffer received_;  // own pieces received from other ranks; buckets reuse its places in turn
  Buffer messages_;  // rounded buckets for sending, then their rounded sums; places are reused in turn
  Buffer total_;     // [own elements], with several rounds
  double waited_ = 0;
};

}  // namespace gpt

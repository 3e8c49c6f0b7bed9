#pragma once

#include <cstdint>
#include <vector>

#include "distributed/communicator.h"
#include "kernels/backend.h"
#include "model/params.h"
#include "model/training_graph.h"
#include "train/buckets.h"

namespace gpt {

// Sums the gradients of a batch over all ranks (all-reduce or reduce-scatter). A batch is divided into
// shards, and the gradients of each shard are accumulated from zero. With R ranks, rank r computes the shards
// r, r + R, r + 2R, ... In round j, the ranks together compute the shards j R to j R + R - 1. As soon as the
// backward pass has computed a piece of the gradients, the rank sends it to the owner of the piece. The owner
// adds the pieces in the order of the shards, in fp32, as they arrive. The sums therefore depend on the
// number of shards and not on the number of ranks. The sums of the last round are sent to all ranks, also
// during the backward pass.
//
// With a single round, messages may have a narrower dtype than the gradients. Each rank then rounds the
// pieces that it sends, and the owner adds the received pieces to its own unrounded gradients. If the sums
// are sent to all ranks, every rank, including the owner, uses the rounded sums.
class GradientSums {
 public:
  // Selects the sums that a rank keeps. With `all`, every rank receives the sums of all pieces. With `own`, a
  // rank only keeps the sums of its own pieces. With `own_memory`, a rank also frees the memory of all other
  // pieces after it has sent them; this requires that each backward pass starts a new shard.
  enum class Keeps : uint8_t { all, own, own_memory };
  // `rounds` is the number of shards per rank. `message_type` is the dtype of `grads` or bf16. All references
  // must outlive this object.
  GradientSums(const ParamTable& table, const ParamBuffer& grads, int64_t rounds, Keeps keeps,
               DType message_type, Communicator& processes, const Backend& backend);

  // Returns the hook for the backward pass that completes the shard of a round. The hook is empty if there is
  // only one process.
  GradReadyHook sending(int64_t round);
  // Waits for the messages of a round and adds the gradients of its shards. After the last round, the
  // gradient buffer contains the sums.
  void finish_round(int64_t round);

  const ShardMap& shard_map() const { return shard_map_; }  // the pieces of all ranks
  const ParamLayout& layout() const { return layout_; }
  // All-gathers x, which has one value per gradient element, or one value per `block` gradient elements.
  void gather(const TensorView& x, int64_t block, const ShardMap& shard_map, const char* what);
  // Sends the gradient sums from the owners of the pieces to the ranks that own the elements in `shard_map`.
  void move_to(const ShardMap& shard_map);
  // Frees the memory of all pieces that this rank does not own.
  void drop_others() const;

  double waited_seconds() const { return waited_; }  // total time spent waiting for messages

  // Returns the number of bytes allocated in addition to the gradients.
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
  size_t in_flight_;  // maximum number of buckets in flight
  size_t places_;     // number of buckets that fit into messages_
  ShardMap shard_map_;
  ParamLayout layout_;
  int64_t own_elements_ = 0;
  std::vector<int64_t> own_offset_;  // offset of each of this rank's pieces in total_, by bucket
  std::vector<int> parameters_;      // number of parameters that overlap each bucket
  std::vector<int> pending_;  // number of these parameters whose gradients are not ready yet, by bucket
  int64_t round_ = 0;
  struct Sent {
    int64_t bucket;
    Communicator::Handle handle;
  };
  std::vector<Sent> sent_;                      // buckets sent in this round, in the same order on all ranks
  size_t completed_ = 0;                        // number of buckets in sent_ that are summed
  std::vector<Communicator::Handle> gathered_;  // transfers that send sums to all ranks
  size_t taken_ = 0;  // number of transfers in gathered_ whose sums are stored in the gradients
  // This rank's own pieces, as received from the other ranks. The buckets use the slots of this buffer in
  // rotation.
  Buffer received_;
  // Buckets that are rounded for sending. The rounded sums later overwrite them. The buckets use the slots of
  // this buffer in rotation.
  Buffer messages_;
  Buffer total_;  // [own elements]; used with several rounds
  double waited_ = 0;
};

}  // namespace gpt

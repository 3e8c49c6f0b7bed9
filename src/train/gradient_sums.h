#pragma once

#include <cstdint>
#include <vector>

#include "distributed/communicator.h"
#include "kernels/backend.h"
#include "model/params.h"
#include "model/training_graph.h"
#include "train/buckets.h"

namespace gpt {

// The gradients of a batch, from those of its shards: runs of samples, each added up from zero. Rank r of R
// has the shards r, r + R, ...; in round j all have computed shards j R to j R + R - 1. Every piece is sent
// to the process that owns it as soon as the backward pass is through with it, and the owner adds the shards
// in their order, in fp32, as soon as they have come. So the sums depend on the number of shards and not on
// that of processes. Those of the last round go to all, still during the backward pass.
//
// Messages may be of a narrower type than the gradients, where there is one round: what is sent to an owner
// is rounded, and added to the owner's own part, which is not. Sums that go to all are rounded as well, in
// every process.
class GradientSums {
 public:
  // What becomes of the sums: every process gets all of them; or its own pieces alone; and whether memory of
  // the others' is given back as soon as they are sent, for a backward pass that begins anew with each shard.
  enum class Keeps : uint8_t { all, own, own_memory };
  // rounds: shards of each process. message_type: that of grads, or bf16. All that is given must outlive
  // this.
  GradientSums(const ParamTable& table, const ParamBuffer& grads, int64_t rounds, Keeps keeps,
               DType message_type, Communicator& processes, const Backend& backend);

  // For the backward pass that completes the shard of a round. Empty for a process by itself.
  GradReadyHook sending(int64_t round);
  // Adds the shards of a round, which has been sent; after the last one the gradients are the sums.
  void finish_round(int64_t round);

  const ShardMap& shard_map() const { return shard_map_; }  // the pieces of all
  const ParamLayout& layout() const { return layout_; }
  // Of something that has a number for each element of the gradients, or for each `block` of them: every
  // process gets what the others have.
  void gather(const TensorView& x, int64_t block, const ShardMap& shard_map, const char* what);
  // Every process gets the sums of its ranges from those whose pieces they are.
  void move_to(const ShardMap& shard_map);
  // Gives memory of all but the own pieces back.
  void drop_others() const;

  double waited_seconds() const { return waited_; }  // for messages, so far

  // Of memory beside the gradients.
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
  std::vector<int64_t> own_offset_;  // of the own pieces, one behind the other, by bucket
  std::vector<int> parameters_;      // that have a part in each bucket ...
  std::vector<int> pending_;         // ... and of these, those whose gradients are not done
  int64_t round_ = 0;
  struct Sent {
    int64_t bucket;
    Communicator::Handle handle;
  };
  std::vector<Sent> sent_;                      // in this round, in the order of all processes ...
  size_t completed_ = 0;                        // ... of which so many are added
  std::vector<Communicator::Handle> gathered_;  // their sums, on the way to all ...
  size_t taken_ = 0;                            // ... of which so many are among the gradients
  Buffer received_;  // own pieces of the other ranks, in places that buckets take in turns
  Buffer messages_;  // buckets as they are sent, and then their sums, likewise; if they are rounded
  Buffer total_;     // [own elements], with several rounds
  double waited_ = 0;
};

}  // namespace gpt

#include "train/gradient_sums.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/kernel_table.h"
#include "tensor/device.h"

namespace gpt {
namespace {

// Returns the number of slots for rounded buckets. When a rank sends bucket n, it has received bucket n -
// in_flight from all other ranks. These ranks had already summed bucket n - 2 * in_flight before they sent
// bucket n - in_flight. The sums of the bucket that previously used the slot are therefore already in
// transit, so the rank waits only briefly for the slot.
int64_t places(const Buckets& buckets) {
  return 2 * buckets.in_flight();
}

int64_t received_elements(const Buckets& buckets, int processes) {
  return std::min(buckets.in_flight(), buckets.count()) * (processes - 1) * buckets.largest();
}

int64_t message_elements(const Buckets& buckets) {
  return std::min(places(buckets), buckets.count()) * buckets.bucket(0).size();
}

size_t most_ranges(const ShardMap& shard_map) {
  size_t most = 0;
  for (const std::vector<ElementRange>& ranges : shard_map)
    most = std::max(most, ranges.size());
  return most;
}

// Calls `work(part)` twice. `part` is a function that returns a two-dimensional view of a part of a flat
// tensor, so that threads can share the rows. In the first call, the view contains all full rows, [n,4096].
// In the second call, it contains the remaining elements, [1,rest].
template <class Work>
void in_rows(int64_t size, const Work& work) {
  constexpr int64_t kRow = 4096;
  const auto rows_from = [&](int64_t begin, int64_t n, int64_t cols) {
    work([&](const TensorView& x) {
      std::byte* const data =
          static_cast<std::byte*>(x.data) + static_cast<size_t>(begin) * dtype_size(x.dtype);
      TensorView view = make_view(data, x.dtype, {n, cols});
      view.device = x.device;
      return view;
    });
  };
  const int64_t rows = size / kRow, rest = size % kRow;
  if (rows > 0) rows_from(0, rows, kRow);
  if (rest > 0) rows_from(rows * kRow, 1, rest);
}

std::span<std::byte> bytes_of(const TensorView& x) {
  return {static_cast<std::byte*>(x.data), static_cast<size_t>(x.size()) * dtype_size(x.dtype)};
}

}  // namespace

GradientSums::GradientSums(const ParamTable& table, const ParamBuffer& grads, int64_t rounds, Keeps keeps,
                           DType message_type, Communicator& processes, const Backend& backend)
    : table_(table),
      grads_(grads),
      rounds_(rounds),
      keeps_(keeps),
      message_type_(message_type),
      processes_(processes),
      backend_(backend),
      buckets_(grads.all().size(), processes.size()),
      in_flight_(static_cast<size_t>(buckets_.in_flight())),
      places_(static_cast<size_t>(places(buckets_))),
      shard_map_(shard_evenly(grads.all().size(), processes.size())),
      layout_(table),
      parameters_(static_cast<size_t>(buckets_.count())) {
  if (processes.size() > 1 && !backend.device->is_host())
    fail_unsupported("distributed training is only supported on the CPU; leave out `device` or mpirun");
  GPT_ASSERT(rounds == 1 || !rounds_messages());
  for (int64_t i = 0; i < buckets_.count(); ++i) {
    own_offset_.push_back(own_elements_);
    own_elements_ += buckets_.shard(i, processes.rank()).size();
  }
  const auto buffer = [&](int64_t elements, DType dtype, const char* what) {
    return Buffer(static_cast<size_t>(elements) * dtype_size(dtype), what, backend.device.get());
  };
  received_ = buffer(received_elements(buckets_, processes.size()), message_type, "gradients of other ranks");
  if (rounds_messages() && processes.size() > 1)
    messages_ = buffer(message_elements(buckets_), message_type, "rounded gradients");
  if (rounds > 1) total_ = buffer(own_elements_, grads.dtype(), "gradient sums");
  for (int id = 0; id < table.count(); ++id) {
    for (int64_t i = 0; i < buckets_.count(); ++i)
      parameters_[static_cast<size_t>(i)] += overlaps(id, i) ? 1 : 0;
  }
  pending_ = parameters_;
}

// Returns true if the bucket contains a part of the gradient of parameter `id`.
bool GradientSums::overlaps(int id, int64_t bucket) const {
  const int64_t begin = layout_.offset[static_cast<size_t>(id)];
  return begin >= 0 && common(buckets_.bucket(bucket), {begin, begin + table_[id].size()}).size() > 0;
}

GradReadyHook GradientSums::sending(int64_t round) {
  if (processes_.size() == 1) return {};
  round_ = round;
  return [this](int first_id, int last_id, const DeviceEvent& event) {
    for (int id = first_id; id <= last_id; ++id)
      done(id, event);
  };
}

// The events of a device queue complete in order, so it is enough to wait for the last event of a bucket.
void GradientSums::done(int id, const DeviceEvent& event) {
  for (int64_t i = 0; i < buckets_.count(); ++i) {
    if (!overlaps(id, i) || --pending_[static_cast<size_t>(i)] > 0) continue;
    backend_.device->wait(event);
    send(i);
  }
}

// Sends each rank its piece of the bucket, and receives this rank's own piece from every other rank.
void GradientSums::send(int64_t bucket) {
  while (completed_ < sent_.size() &&
         (sent_.size() - completed_ == in_flight_ || has_ended(sent_[completed_].handle)))
    complete_next();
  const size_t place = sent_.size();
  // Wait until the slot for the rounded bucket is free.
  while (rounds_messages() && taken_ < gathered_.size() && taken_ + places_ <= place)
    take_next();
  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
  for (int rank = 0; rank < processes_.size(); ++rank) {
    const bool is_own = rank == processes_.rank();
    to.push_back(is_own ? std::span<std::byte>() : bytes_of(rounded(place, bucket, rank)));
    from.push_back(is_own ? std::span<std::byte>() : bytes_of(received(place, bucket, rank)));
  }
  sent_.push_back({bucket, processes_.exchange(to, from, "sending gradients", Communicator::Channel::main)});
}

// Waits for the oldest bucket in flight and adds the received pieces. The sums are sent on a separate
// channel, because other ranks may have completed fewer buckets.
void GradientSums::complete_next() {
  Sent& next = sent_[completed_];
  waited_ += timed([&] { finish(next.handle); });
  next.handle.reset();
  add(next.bucket, round_);
  ++completed_;
  if (keeps_ == Keeps::all && round_ == rounds_ - 1) gathered_.push_back(share_sums(next.bucket));
  if (keeps_ == Keeps::own_memory) drop_others(next.bucket);
}

void GradientSums::drop_others(int64_t bucket) const {
  const ElementRange own = buckets_.shard(bucket, processes_.rank()), all = buckets_.bucket(bucket);
  grads_.drop(all.begin, own.begin);
  grads_.drop(own.end, all.end);
}

void GradientSums::drop_others() const {
  for (int64_t i = 0; i < buckets_.count(); ++i)
    drop_others(i);
}

TensorView GradientSums::own(int64_t bucket) const {
  const ElementRange piece = buckets_.shard(bucket, processes_.rank());
  return grads_.range(piece.begin, piece.end);
}

TensorView GradientSums::total(int64_t bucket) const {
  const auto size = static_cast<int64_t>(dtype_size(grads_.dtype()));
  return total_.view(own_offset_[static_cast<size_t>(bucket)] * size, grads_.dtype(),
                     Shape{buckets_.shard(bucket, processes_.rank()).size()});
}

// Returns the memory into which this rank's own piece of `bucket` is received from `rank`. `place` is the
// number of buckets that were sent before `bucket`.
TensorView GradientSums::received(size_t place, int64_t bucket, int rank) const {
  const auto size = static_cast<int64_t>(dtype_size(message_type_));
  const int64_t row = static_cast<int64_t>(place % in_flight_) * (processes_.size() - 1) +
                      (rank < processes_.rank() ? rank : rank - 1);
  return received_.view(row * buckets_.largest() * size, message_type_,
                        Shape{buckets_.shard(bucket, processes_.rank()).size()});
}

// Returns the memory from which a range of a bucket is sent, and into which its sums are received.
TensorView GradientSums::message(size_t place, int64_t bucket, const ElementRange& range) const {
  if (!rounds_messages()) return grads_.range(range.begin, range.end);
  const int64_t at = static_cast<int64_t>(place % places_) * buckets_.bucket(0).size() + range.begin -
                     buckets_.bucket(bucket).begin;
  return messages_.view(at * static_cast<int64_t>(dtype_size(message_type_)), message_type_,
                        Shape{range.size()});
}

// Rounds a rank's piece of the gradients to the dtype of messages and returns the rounded piece.
TensorView GradientSums::rounded(size_t place, int64_t bucket, int rank) {
  const ElementRange piece = buckets_.shard(bucket, rank);
  const TensorView sent = message(place, bucket, piece);
  if (rounds_messages()) convert(grads_.range(piece.begin, piece.end), sent);
  return sent;
}

void GradientSums::finish_round(int64_t round) {
  round_ = round;
  if (processes_.size() == 1) {
    for (int64_t i = 0; rounds_ > 1 && i < buckets_.count(); ++i)
      add(i, round);
    return;
  }
  GPT_ASSERT(std::ranges::all_of(pending_, [](int count) { return count == 0; }));
  while (completed_ < sent_.size())
    complete_next();
  while (taken_ < gathered_.size())
    take_next();
  sent_.clear();
  gathered_.clear();
  completed_ = taken_ = 0;
  pending_ = parameters_;
}

void GradientSums::add(int64_t bucket, int64_t round) {
  std::vector<TensorView> parts;
  if (round > 0) parts.push_back(total(bucket));
  for (int rank = 0; rank < processes_.size(); ++rank)
    parts.push_back(rank == processes_.rank() ? own(bucket) : received(completed_, bucket, rank));
  if (rounds_messages())  // this rank's own part comes first, so that the sum starts from fp32 values
    std::rotate(parts.begin(), parts.begin() + processes_.rank(), parts.begin() + processes_.rank() + 1);
  add_parts(parts, round == rounds_ - 1 ? own(bucket) : total(bucket));
}

// Computes sum = ((parts[0] + parts[1]) + parts[2]) ... `sum` may be one of the parts. The function
// overwrites the parts with partial sums.
void GradientSums::add_parts(const std::vector<TensorView>& parts, const TensorView& sum) {
  TensorView so_far = parts.front();
  if (parts.size() == 1 && so_far.data != sum.data) copy_elements(so_far, sum);
  for (size_t i = 1; i < parts.size(); ++i) {
    const TensorView& out = i + 1 == parts.size() ? sum : so_far;
    add_views(out, so_far, parts[i]);
    so_far = out;
  }
}

void GradientSums::add_views(const TensorView& out, const TensorView& a, const TensorView& b) {
  const ExecContext ctx = backend_.context();
  in_rows(out.size(),
          [&](const auto& part) { ctx.kernels.add(ctx, {.out = part(out), .a = part(a), .b = part(b)}); });
}

void GradientSums::convert(const TensorView& from, const TensorView& to) {
  const ExecContext ctx = backend_.context();
  in_rows(to.size(),
          [&](const auto& part) { ctx.kernels.convert(ctx, {.dst = part(to), .src = part(from)}); });
}

void GradientSums::wait_for(std::vector<Communicator::Handle>& handles) {
  waited_ += timed([&] {
    for (const Communicator::Handle& handle : handles)
      finish(handle);
  });
  handles.clear();
}

// Sends this rank's sums of a bucket to all ranks, and receives the sums that the other ranks own.
Communicator::Handle GradientSums::share_sums(int64_t bucket) {
  const size_t place = gathered_.size();
  std::vector<std::span<std::byte>> all;
  for (int rank = 0; rank < processes_.size(); ++rank)
    all.push_back(bytes_of(rank == processes_.rank() ? rounded(place, bucket, rank)
                                                     : message(place, bucket, buckets_.shard(bucket, rank))));
  return gpt::gather(processes_, all, "gathering gradients", Communicator::Channel::second);
}

// Waits until the oldest sums in transit have arrived from all ranks. If messages are rounded, also replaces
// this rank's own sums with their rounded values, so that all ranks have the same sums.
void GradientSums::take_next() {
  waited_ += timed([&] { finish(gathered_[taken_]); });
  gathered_[taken_].reset();
  const int64_t bucket = sent_[taken_].bucket;
  const ElementRange all = buckets_.bucket(bucket);
  if (rounds_messages()) convert(message(taken_, bucket, all), grads_.range(all.begin, all.end));
  ++taken_;
}

void GradientSums::gather(const TensorView& x, int64_t block, const ShardMap& shard_map, const char* what) {
  const auto size = static_cast<int64_t>(dtype_size(x.dtype));
  const auto bytes = [&](const ElementRange& range) {
    const int64_t begin = range.begin / block, end = (range.end + block - 1) / block;
    return bytes_of(x).subspan(static_cast<size_t>(begin * size), static_cast<size_t>((end - begin) * size));
  };
  std::vector<Communicator::Handle> handles;
  for (size_t i = 0; i < most_ranges(shard_map); ++i) {
    std::vector<std::span<std::byte>> all;
    for (const std::vector<ElementRange>& ranges : shard_map)
      all.push_back(i < ranges.size() ? bytes(ranges[i]) : std::span<std::byte>());
    handles.push_back(gpt::gather(processes_, all, what));
  }
  wait_for(handles);
}

void GradientSums::move_to(const ShardMap& shard_map) {
  if (shard_map == shard_map_) return;
  std::vector<Communicator::Handle> handles;
  for (size_t i = 0; i < most_ranges(shard_map); ++i) {
    for (int64_t bucket = 0; bucket < buckets_.count(); ++bucket)
      handles.push_back(move_part(shard_map, i, bucket));
  }
  wait_for(handles);
}

// Sends elements of the bucket to their owners: each rank receives the part of its i-th range in `shard_map`
// that overlaps the bucket. Returns null if no range overlaps the bucket.
Communicator::Handle GradientSums::move_part(const ShardMap& shard_map, size_t i, int64_t bucket) {
  const auto count = static_cast<size_t>(processes_.size()), own = static_cast<size_t>(processes_.rank());
  std::vector<std::span<const std::byte>> to(count);
  std::vector<std::span<std::byte>> from(count);
  bool any = false;
  const auto part = [&](size_t owner, size_t sender) -> std::span<std::byte> {
    if (i >= shard_map[owner].size() || owner == sender) return {};
    const ElementRange range = common(shard_map[owner][i], buckets_.shard(bucket, static_cast<int>(sender)));
    if (range.size() == 0) return {};
    any = true;
    return bytes_of(grads_.range(range.begin, range.end));
  };
  for (size_t rank = 0; rank < count; ++rank) {
    to[rank] = part(rank, own);
    from[rank] = part(own, rank);
  }
  return any ? processes_.exchange(to, from, "redistributing gradients", Communicator::Channel::main)
             : nullptr;
}

int64_t GradientSums::bytes(int64_t elements, DType dtype, DType message_type, int64_t rounds, int processes,
                            int rank) {
  const Buckets buckets(elements, processes);
  const bool rounds_messages = message_type != dtype && processes > 1;
  return (received_elements(buckets, processes) + (rounds_messages ? message_elements(buckets) : 0)) *
             static_cast<int64_t>(dtype_size(message_type)) +
         (rounds > 1 ? buckets.elements_of(rank) * static_cast<int64_t>(dtype_size(dtype)) : 0);
}

}  // namespace gpt

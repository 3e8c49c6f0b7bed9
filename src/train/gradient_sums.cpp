#include "train/gradient_sums.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/kernel_table.h"
#include "tensor/half.h"
#include "tensor/memory.h"

namespace gpt {
namespace {

constexpr size_t kUnderWay = GradientSums::kUnderWay;

int64_t received_elements(const Pieces& pieces, int processes) {
  return std::min(static_cast<int64_t>(kUnderWay), pieces.buckets()) * (processes - 1) * pieces.largest();
}

size_t most_ranges(const Division& division) {
  size_t most = 0;
  for (const std::vector<ElementRange>& ranges : division)
    most = std::max(most, ranges.size());
  return most;
}

std::span<std::byte> bytes_of(const TensorView& x) {
  return {static_cast<std::byte*>(x.data), static_cast<size_t>(x.size()) * dtype_size(x.dtype)};
}

// Numbers in fp32 become bf16 in the first half of their memory; and back, from the last one on.
void narrow(const TensorView& x) {
  auto* const bytes = static_cast<std::byte*>(x.data);
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    float wide;
    std::memcpy(&wide, bytes + i * sizeof wide, sizeof wide);
    const bf16 rounded = to_bf16(wide);
    std::memcpy(bytes + i * sizeof rounded, &rounded, sizeof rounded);
  }
}
void widen(const TensorView& x) {
  auto* const bytes = static_cast<std::byte*>(x.data);
  for (auto i = static_cast<size_t>(x.size()); i-- > 0;) {
    bf16 rounded;
    std::memcpy(&rounded, bytes + i * sizeof rounded, sizeof rounded);
    const float wide = to_float(rounded);
    std::memcpy(bytes + i * sizeof wide, &wide, sizeof wide);
  }
}

}  // namespace

GradientSums::GradientSums(const ParamTable& table, const ParamBuffer& grads, int64_t rounds, Keeps keeps,
                           DType sent, Communicator& processes, const Backend& backend)
    : table_(table),
      grads_(grads),
      rounds_(rounds),
      keeps_(keeps),
      narrow_(sent == DType::bf16),
      processes_(processes),
      backend_(backend),
      pieces_(grads.all().size(), processes.size()),
      division_(divide_in_pieces(grads.all().size(), processes.size())),
      layout_(table),
      parameters_(static_cast<size_t>(pieces_.buckets())) {
  GPT_ASSERT(processes.size() == 1 || backend.memory == nullptr);  // messages are in memory of the host
  GPT_ASSERT(!narrow_ || (rounds == 1 && grads.dtype() == DType::f32));
  for (int64_t i = 0; i < pieces_.buckets(); ++i) {
    own_offset_.push_back(own_elements_);
    own_elements_ += pieces_.piece(i, processes.rank()).size();
  }
  const size_t size = dtype_size(grads.dtype());
  received_ = Buffer(static_cast<size_t>(received_elements(pieces_, processes.size())) * size,
                     "gradients of other processes", backend.memory);
  if (rounds > 1)
    total_ = Buffer(static_cast<size_t>(own_elements_) * size, "sums of gradients", backend.memory);
  for (int id = 0; id < table.count(); ++id) {
    for (int64_t i = 0; i < pieces_.buckets(); ++i)
      parameters_[static_cast<size_t>(i)] += overlaps(id, i) ? 1 : 0;
  }
  pending_ = parameters_;
}

// Whether a bucket holds a part of a parameter's gradient.
bool GradientSums::overlaps(int id, int64_t bucket) const {
  const int64_t begin = layout_.offset[static_cast<size_t>(id)];
  return begin >= 0 && common(pieces_.bucket(bucket), {begin, begin + table_[id].size()}).size() > 0;
}

TrainingGraph::Announce GradientSums::sending(int64_t round) {
  if (processes_.size() == 1) return {};
  round_ = round;
  return [this](int first_id, int last_id) {
    for (int id = first_id; id <= last_id; ++id)
      done(id);
  };
}

void GradientSums::done(int id) {
  for (int64_t i = 0; i < pieces_.buckets(); ++i) {
    if (overlaps(id, i) && --pending_[static_cast<size_t>(i)] == 0) send(i);
  }
}

// To each process its piece, and from each the own one.
void GradientSums::send(int64_t bucket) {
  while (completed_ < sent_.size() &&
         (sent_.size() - completed_ == kUnderWay || has_ended(sent_[completed_].handle)))
    complete_next();
  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
  for (int rank = 0; rank < processes_.size(); ++rank) {
    const bool is_own = rank == processes_.rank();
    const ElementRange piece = pieces_.piece(bucket, rank);
    to.push_back(is_own ? std::span<std::byte>() : outgoing(grads_.range(piece.begin, piece.end)));
    from.push_back(is_own ? std::span<std::byte>() : message(received(sent_.size(), bucket, rank)));
  }
  sent_.push_back({bucket, processes_.exchange(to, from, "sending gradients", Communicator::Channel::main)});
}

// Adds the first of the buckets that are under way, once it has arrived. Sums have a channel of their own,
// for others may have come less far.
void GradientSums::complete_next() {
  Sent& next = sent_[completed_];
  waited_ += timed([&] { finish(next.handle); });
  next.handle.reset();
  add(next.bucket, round_);
  ++completed_;
  if (keeps_ == Keeps::all && round_ == rounds_ - 1)
    gathered_.push_back({next.bucket, share_sums(next.bucket)});
  if (keeps_ == Keeps::own_memory) drop_others(next.bucket);
}

void GradientSums::drop_others(int64_t bucket) const {
  const ElementRange own = pieces_.piece(bucket, processes_.rank()), all = pieces_.bucket(bucket);
  grads_.drop(all.begin, own.begin);
  grads_.drop(own.end, all.end);
}

void GradientSums::drop_others() const {
  for (int64_t i = 0; i < pieces_.buckets(); ++i)
    drop_others(i);
}

TensorView GradientSums::own(int64_t bucket) const {
  const ElementRange piece = pieces_.piece(bucket, processes_.rank());
  return grads_.range(piece.begin, piece.end);
}

TensorView GradientSums::total(int64_t bucket) const {
  const auto size = static_cast<int64_t>(dtype_size(grads_.dtype()));
  return total_.view(own_offset_[static_cast<size_t>(bucket)] * size, grads_.dtype(),
                     Shape{pieces_.piece(bucket, processes_.rank()).size()});
}

// The own piece from another rank, of the bucket that was sent after so many.
TensorView GradientSums::received(size_t place, int64_t bucket, int rank) const {
  const auto size = static_cast<int64_t>(dtype_size(grads_.dtype()));
  const int64_t row = static_cast<int64_t>(place % kUnderWay) * (processes_.size() - 1) +
                      (rank < processes_.rank() ? rank : rank - 1);
  return received_.view(row * pieces_.largest() * size, grads_.dtype(),
                        Shape{pieces_.piece(bucket, processes_.rank()).size()});
}

TensorView GradientSums::arrived(int64_t bucket, int rank) const {
  const TensorView part = received(completed_, bucket, rank);
  if (narrow_) widen(part);
  return part;
}

void GradientSums::finish_round(int64_t round) {
  round_ = round;
  if (processes_.size() == 1) {
    for (int64_t i = 0; rounds_ > 1 && i < pieces_.buckets(); ++i)
      add(i, round);
    return;
  }
  GPT_ASSERT(std::ranges::all_of(pending_, [](int count) { return count == 0; }));
  while (completed_ < sent_.size())
    complete_next();
  sent_.clear();
  completed_ = 0;
  pending_ = parameters_;
  waited_ += timed([&] {
    for (const Sent& sums : gathered_)
      finish(sums.handle);
  });
  for (const Sent& sums : gathered_)
    widen_sums(sums.bucket);
  gathered_.clear();
}

void GradientSums::add(int64_t bucket, int64_t round) {
  std::vector<TensorView> parts;
  if (round > 0) parts.push_back(total(bucket));
  for (int rank = 0; rank < processes_.size(); ++rank)
    parts.push_back(rank == processes_.rank() ? own(bucket) : arrived(bucket, rank));
  add_parts(parts, round == rounds_ - 1 ? own(bucket) : total(bucket));
}

// sum = ((parts[0] + parts[1]) + parts[2]) ..., which may be one of them. The others are written to as well.
void GradientSums::add_parts(const std::vector<TensorView>& parts, const TensorView& sum) {
  TensorView so_far = parts.front();
  if (parts.size() == 1 && so_far.data != sum.data) copy_rows(so_far, sum);
  for (size_t i = 1; i < parts.size(); ++i) {
    const TensorView& out = i + 1 == parts.size() ? sum : so_far;
    add_views(out, so_far, parts[i]);
    so_far = out;
  }
}

// In rows, which are what threads share.
void GradientSums::add_views(const TensorView& out, const TensorView& a, const TensorView& b) {
  constexpr int64_t kRow = 4096;
  const ExecContext ctx = backend_.context();
  const int64_t rows = out.size() / kRow, rest = out.size() % kRow;
  const auto add = [&](int64_t begin, int64_t n, int64_t cols) {
    const auto part = [&](const TensorView& x) {
      std::byte* const data =
          static_cast<std::byte*>(x.data) + static_cast<size_t>(begin) * dtype_size(x.dtype);
      TensorView view = make_view(data, x.dtype, {n, cols});
      view.memory = x.memory;
      return view;
    };
    ctx.kernels.add(ctx, {.out = part(out), .a = part(a), .b = part(b)});
  };
  if (rows > 0) add(0, rows, kRow);
  if (rest > 0) add(rows * kRow, 1, rest);
}

void GradientSums::wait_for(std::vector<Communicator::Handle>& handles) {
  waited_ += timed([&] {
    for (const Communicator::Handle& handle : handles)
      finish(handle);
  });
  handles.clear();
}

// Where numbers are sent from and received.
std::span<std::byte> GradientSums::message(const TensorView& x) const {
  return narrow_ ? bytes_of(x).first(static_cast<size_t>(x.size()) * dtype_size(DType::bf16)) : bytes_of(x);
}

// Of numbers that are needed no more in this process.
std::span<std::byte> GradientSums::outgoing(const TensorView& x) const {
  if (narrow_) narrow(x);
  return message(x);
}

// Every process gets the others' pieces of a bucket; the own one becomes what they get.
Communicator::Handle GradientSums::share_sums(int64_t bucket) {
  std::vector<std::span<std::byte>> all;
  for (int rank = 0; rank < processes_.size(); ++rank) {
    const ElementRange piece = pieces_.piece(bucket, rank);
    const TensorView sums = grads_.range(piece.begin, piece.end);
    all.push_back(rank == processes_.rank() ? outgoing(sums) : message(sums));
  }
  return gpt::gather(processes_, all, "gathering gradients", Communicator::Channel::second);
}

void GradientSums::widen_sums(int64_t bucket) const {
  for (int rank = 0; narrow_ && rank < processes_.size(); ++rank) {
    const ElementRange piece = pieces_.piece(bucket, rank);
    widen(grads_.range(piece.begin, piece.end));
  }
}

void GradientSums::gather(const TensorView& x, int64_t block, const Division& division, const char* what) {
  const auto size = static_cast<int64_t>(dtype_size(x.dtype));
  const auto bytes = [&](const ElementRange& range) {
    const int64_t begin = range.begin / block, end = (range.end + block - 1) / block;
    return bytes_of(x).subspan(static_cast<size_t>(begin * size), static_cast<size_t>((end - begin) * size));
  };
  std::vector<Communicator::Handle> handles;
  for (size_t i = 0; i < most_ranges(division); ++i) {
    std::vector<std::span<std::byte>> all;
    for (const std::vector<ElementRange>& ranges : division)
      all.push_back(i < ranges.size() ? bytes(ranges[i]) : std::span<std::byte>());
    handles.push_back(gpt::gather(processes_, all, what));
  }
  wait_for(handles);
}

void GradientSums::move_to(const Division& division) {
  if (division == division_) return;
  std::vector<Communicator::Handle> handles;
  for (size_t i = 0; i < most_ranges(division); ++i) {
    for (int64_t bucket = 0; bucket < pieces_.buckets(); ++bucket)
      handles.push_back(move_part(division, i, bucket));
  }
  wait_for(handles);
}

// What is in a bucket of the range with that number of each process; null where none is.
Communicator::Handle GradientSums::move_part(const Division& division, size_t i, int64_t bucket) {
  const auto count = static_cast<size_t>(processes_.size()), own = static_cast<size_t>(processes_.rank());
  std::vector<std::span<const std::byte>> to(count);
  std::vector<std::span<std::byte>> from(count);
  bool any = false;
  const auto part = [&](size_t owner, size_t sender) -> std::span<std::byte> {
    if (i >= division[owner].size() || owner == sender) return {};
    const ElementRange range = common(division[owner][i], pieces_.piece(bucket, static_cast<int>(sender)));
    if (range.size() == 0) return {};
    any = true;
    return bytes_of(grads_.range(range.begin, range.end));
  };
  for (size_t rank = 0; rank < count; ++rank) {
    to[rank] = part(rank, own);
    from[rank] = part(own, rank);
  }
  return any ? processes_.exchange(to, from, "moving gradients", Communicator::Channel::main) : nullptr;
}

int64_t GradientSums::bytes(int64_t elements, DType dtype, int64_t rounds, int processes, int rank) {
  const Pieces pieces(elements, processes);
  return (received_elements(pieces, processes) + (rounds > 1 ? pieces.elements_of(rank) : 0)) *
         static_cast<int64_t>(dtype_size(dtype));
}

}  // namespace gpt

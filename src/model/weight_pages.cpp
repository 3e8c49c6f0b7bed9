#include "model/weight_pages.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/process_memory.h"
#include "base/ranges.h"
#include "tensor/device.h"

namespace gpt {
namespace {

// If a step has more rows than this, its matmuls take longer than reading the weights.
constexpr int64_t kFewRows = 16;
// A copy takes as long as reading the weights three times. Each later read takes 25% less time, so the copy
// pays off after 12 tokens.
constexpr int64_t kFirstTokens = 16;
constexpr int64_t kSlices = 16;  // short slices, so that no token is delayed for long
constexpr int64_t kLeastSlice = 32 << 20;
constexpr int64_t kPiece = 16 << 20;      // bytes that are temporarily in memory twice
constexpr ptrdiff_t kBetween = 64 << 10;  // maximum gap between weights: small tensors and padding
constexpr auto kPage = static_cast<int64_t>(kLargePage);

}  // namespace

Repack parse_repack(const std::string& name) {
  if (const Repack* repack = find_by(kRepacks, repack_name, name)) return *repack;
  fail_parameter("repack", "expected auto, never or always, found {}", printable(name.substr(0, 64)));
}

WeightPages::WeightPages(std::vector<const MappedFile*> files, std::function<int64_t()> free_memory)
    : files_(std::move(files)), free_memory_(std::move(free_memory)) {
  if (!free_memory_) free_memory_ = [] { return available_memory(); };
}

const MappedFile* WeightPages::file_of(const TensorView& weight) const {
  const std::byte* const at = weight.as<const std::byte>();
  const auto it = std::ranges::find_if(files_, [&](const MappedFile* file) {
    const std::span<const std::byte> all = file->bytes();
    return at >= all.data() && at < all.data() + all.size();
  });
  return it == files_.end() ? nullptr : *it;
}

int64_t WeightPages::bytes_of(std::span<const Part> parts) {
  return sum_of(parts, [](const Part& part) { return int64_t{part.end - part.begin}; });
}

// Merges overlapping ranges first, because several views may contain the same matrix of a file.
int64_t WeightPages::bytes(std::span<const TensorView> weights) const {
  return bytes_of(parts_of(weights));
}

// Returns the whole huge pages that contain the weights, as ranges in descending order of address.
std::vector<WeightPages::Part> WeightPages::parts_of(std::span<const TensorView> weights) const {
  std::vector<Part> parts;
  for (const TensorView& weight : weights) {
    const std::byte* const begin = weight.as<const std::byte>();
    if (const MappedFile* file = file_of(weight)) parts.push_back({file, begin, begin + extent(weight)});
  }
  std::ranges::sort(parts, std::greater{}, &Part::begin);
  std::vector<Part> joined;
  for (const Part& part : parts) {
    if (!joined.empty() && joined.back().file == part.file && joined.back().begin - part.end <= kBetween) {
      joined.back().begin = part.begin;
      joined.back().end = std::max(joined.back().end, part.end);
    } else {
      joined.push_back(part);
    }
  }
  for (Part& part : joined) {
    part.begin += -reinterpret_cast<uintptr_t>(part.begin) % kLargePage;
    part.end -= reinterpret_cast<uintptr_t>(part.end) % kLargePage;
  }
  std::erase_if(joined, [](const Part& part) { return part.begin >= part.end; });
  return joined;
}

// Returns the ranges within `parts` that have not been moved yet.
std::vector<WeightPages::Part> WeightPages::not_moved(std::vector<Part> parts) const {
  for (const Part& gone : moved_parts_) {
    std::vector<Part> rest;
    for (const Part& part : parts) {
      rest.push_back({part.file, std::max(part.begin, gone.end), part.end});
      rest.push_back({part.file, part.begin, std::min(part.end, gone.begin)});
    }
    std::erase_if(rest, [](const Part& part) { return part.begin >= part.end; });
    parts = std::move(rest);
  }
  return parts;
}

// Called before each slice, because other processes also allocate memory and may copy weights at the same
// time.
bool WeightPages::has_room() const {
  return bytes_of(left_) <= free_memory_() / 2;
}

// Returns true if there are weights to copy and most of them are in small pages.
bool WeightPages::pays() const {
  if (left_.empty() || !no_large_pages_because().empty()) return false;
  const auto all = transformed(files_, [](const MappedFile* file) { return file->bytes(); });
  return bytes_in_large_pages(all) < bytes_of(left_) / 2;
}

// Returns true if the first moved part is in huge pages. If memory is fragmented, the system may have no free
// huge pages.
bool WeightPages::are_large() const {
  const std::span<const std::byte> first[] = {{moved_parts_.front().begin, 1}};
  return bytes_in_large_pages(first) > 0;
}

// Moves up to `bytes` bytes. Returns false if nothing is left to move, or if the system cannot allocate
// memory.
bool WeightPages::move_next(ThreadPool& pool, int64_t bytes) {
  while (bytes > 0 && !left_.empty()) {
    Part& part = left_.back();
    const int64_t n = std::min<int64_t>({bytes, part.end - part.begin, kPiece});
    if (!part.file->move_to_large_pages(pool, {part.begin, static_cast<size_t>(n)})) return false;
    if (!moved_parts_.empty() && moved_parts_.back().end == part.begin) {
      moved_parts_.back().end += n;
    } else {
      moved_parts_.push_back({part.file, part.begin, part.begin + n});
    }
    part.begin += n;
    bytes -= n;
    moved_ += n;
    if (part.begin == part.end) left_.pop_back();
  }
  return !left_.empty();
}

bool WeightPages::waits_for(int64_t rows) const {
  return !done_ && rows <= kFewRows;
}

void WeightPages::after_step(ThreadPool& pool, std::span<const TensorView> weights, int64_t rows) {
  if (!waits_for(rows)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);  // if the lock is taken, another thread is copying
  if (!lock || ++steps_ < kFirstTokens) return;
  const bool first = steps_ == kFirstTokens;
  if (first) {
    left_ = not_moved(parts_of(weights));
    slice_ = std::max(kLeastSlice, bytes_of(left_) / kSlices / kPage * kPage);
  }
  const bool goes_on = (!first || pays()) && has_room() && move_next(pool, slice_) && (!first || are_large());
  done_ = !goes_on;
}

void WeightPages::move_all(ThreadPool& pool, std::span<const TensorView> weights, int64_t besides) {
  const std::lock_guard lock(mutex_);
  left_ = not_moved(parts_of(weights));
  if (left_.empty()) return;
  const std::string& path = left_.front().file->path();
  if (const std::string why = no_large_pages_because(); !why.empty())
    fail("repack always: {}: huge pages are not available: {}; use auto or never", path, why);
  while (!left_.empty()) {
    const int64_t needed = bytes_of(left_) + besides, free = free_memory_();
    if (free > 0 && needed > free)
      fail_memory(
          "repack always: {}: a copy of the weights needs {} ({} including caches), but only {} of memory is "
          "free; use auto or never",
          path, format_bytes(bytes_of(left_)), format_bytes(needed), format_bytes(free));
    if (!move_next(pool, kLeastSlice) && !left_.empty())
      fail_memory("repack always: {}: cannot allocate memory for a copy of the weights", path);
  }
  done_ = true;
}

}  // namespace gpt

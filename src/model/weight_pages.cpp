#include "model/weight_pages.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/process_memory.h"
#include "base/ranges.h"
#include "tensor/memory.h"

namespace gpt {
namespace {

// With more rows, products take longer than reading the weights.
constexpr int64_t kFewRows = 16;
// A copy costs as much as reading three times, and saves a fourth of each.
constexpr int64_t kFirstTokens = 16;
constexpr int64_t kSlices = 16;  // so that no token waits long
constexpr int64_t kLeastSlice = 32 << 20;
constexpr int64_t kPiece = 16 << 20;      // that is in memory twice for a moment
constexpr ptrdiff_t kBetween = 64 << 10;  // of small tensors and padding
constexpr auto kPage = static_cast<int64_t>(kLargePage);

}  // namespace

Repack parse_repack(const std::string& name) {
  if (const Repack* repack = find_by(kRepacks, repack_name, name)) return *repack;
  fail_parameter("repack", "expected auto, never or always, found \"{}\"", printable(name.substr(0, 64)));
}

const MappedFile* WeightPages::file_of(const TensorView& weight) const {
  const std::byte* const at = weight.as<const std::byte>();
  const auto it = std::ranges::find_if(files_, [&](const MappedFile* file) {
    const std::span<const std::byte> all = file->bytes();
    return at >= all.data() && at < all.data() + all.size();
  });
  return it == files_.end() ? nullptr : *it;
}

// By parts: views of one matrix of a file may overlap.
int64_t WeightPages::bytes(std::span<const TensorView> weights) const {
  return sum_of(parts_of(weights), [](const Part& part) { return int64_t{part.end - part.begin}; });
}

// Whole large pages of them, from the last one to the first.
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

// Whether most of them are in small pages, and memory is to be had.
bool WeightPages::pays(std::span<const TensorView> weights) const {
  const int64_t all = bytes(weights);
  if (all == 0 || !has_large_pages() || all > available_memory() / 2) return false;
  return bytes_in_large_pages(files_) < all / 2;
}

// False when the system refuses, with something left, or nothing is left.
bool WeightPages::move_next(ThreadPool& pool, int64_t bytes) {
  while (bytes > 0 && !left_.empty()) {
    Part& part = left_.back();
    const int64_t n = std::min<int64_t>({bytes, part.end - part.begin, kPiece});
    if (!part.file->move_to_large_pages(pool, {part.begin, static_cast<size_t>(n)})) return false;
    part.begin += n;
    bytes -= n;
    moved_ += n;
    if (part.begin == part.end) left_.pop_back();
  }
  return !left_.empty();
}

void WeightPages::after_step(ThreadPool& pool, std::span<const TensorView> weights, int64_t rows) {
  if (done_ || rows > kFewRows) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);  // who does not get it is beside one who does it
  if (!lock || ++steps_ < kFirstTokens) return;
  if (steps_ == kFirstTokens) {
    if (!pays(weights)) {
      done_ = true;
      return;
    }
    left_ = parts_of(weights);
    slice_ = std::max(kLeastSlice, bytes(weights) / kSlices / kPage * kPage);
  }
  if (move_next(pool, slice_)) return;
  done_ = true;
  all_moved_ = left_.empty();
}

void WeightPages::move_all(ThreadPool& pool, std::span<const TensorView> weights) {
  const std::lock_guard lock(mutex_);
  if (all_moved_) return;
  left_ = parts_of(weights);
  if (left_.empty()) return;
  const int64_t all = bytes(weights), available = available_memory();
  if (!has_large_pages())
    fail("repack always: the system gives out no large pages (/sys/kernel/mm/transparent_hugepage/enabled)");
  if (all > available)
    fail("repack always: a copy of the weights takes {}, {} are free; use auto or never",
         format_bytes(static_cast<double>(all)), format_bytes(static_cast<double>(available)));
  while (move_next(pool, kLeastSlice)) {
  }
  if (!left_.empty()) fail("repack always: the system refused memory for a copy of the weights");
  done_ = all_moved_ = true;
}

}  // namespace gpt

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace gpt {

class MappedFile;
class ThreadPool;

// Controls whether memory-mapped weights are copied to huge pages. Memory bandwidth limits the speed of
// decoding. The page cache of the operating system consists of scattered 4 KiB pages, which are slower to
// read than huge pages.
enum class Repack : uint8_t {
  // Copies the weights in slices after the first tokens, if most of them are in small pages. Stops if the
  // remaining slices would need more than half of the free memory.
  automatic,
  never,
  always  // copies the weights immediately
};
inline constexpr Repack kRepacks[] = {Repack::automatic, Repack::never, Repack::always};
inline std::string_view repack_name(Repack repack) {
  constexpr std::string_view kNames[] = {"auto", "never", "always"};
  return kNames[static_cast<size_t>(repack)];
}
Repack parse_repack(const std::string& name);  // throws invalid_argument for the parameter repack

// Moves the memory-mapped weights of a model to huge pages. The addresses and values of the weights stay the
// same, so any number of threads may read them at the same time.
class WeightPages {
 public:
  // The files must stay open for the lifetime of this object. `free_memory` returns the number of free bytes,
  // or 0 if it is unknown. Tests pass their own function.
  explicit WeightPages(std::vector<const MappedFile*> files, std::function<int64_t()> free_memory = {});

  // Returns the number of bytes that can be moved: whole huge pages of the files that contain these weights.
  int64_t bytes(std::span<const TensorView> weights) const;

  // Called after a step of `rows` tokens that has read these weights. Copies the next slice of the weights,
  // if the conditions of Repack::automatic are met. Allocates memory only while it copies.
  void after_step(ThreadPool& pool, std::span<const TensorView> weights, int64_t rows);
  // Returns true if further steps with this number of tokens may copy weights.
  bool waits_for(int64_t rows) const;
  // Copies all weights that have not been copied yet. Throws Error if the system has no huge pages, or if
  // there is not enough memory for the copy and for `besides` bytes that will be used later.
  void move_all(ThreadPool& pool, std::span<const TensorView> weights, int64_t besides);

  int64_t moved() const { return moved_; }  // number of bytes that have been moved

 private:
  // A range of adjacent weights in a file, limited to whole huge pages.
  struct Part {
    const MappedFile* file;
    const std::byte *begin, *end;
  };
  static int64_t bytes_of(std::span<const Part> parts);
  const MappedFile* file_of(const TensorView& weight) const;
  std::vector<Part> parts_of(std::span<const TensorView> weights) const;
  std::vector<Part> not_moved(std::vector<Part> parts) const;
  bool has_room() const;
  bool pays() const;
  bool move_next(ThreadPool& pool, int64_t bytes);
  bool are_large() const;

  std::vector<const MappedFile*> files_;
  std::function<int64_t()> free_memory_;
  std::mutex mutex_;
  std::vector<Part> left_;         // parts to move; the next part is the last element
  std::vector<Part> moved_parts_;  // in the order of the moves
  int64_t steps_ = 0, slice_ = 0;
  std::atomic<int64_t> moved_ = 0;
  std::atomic<bool> done_ = false;  // true if after_step has nothing more to copy
};

}  // namespace gpt

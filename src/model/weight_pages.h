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

// Whether weights that are read where their file has them are copied to memory with large pages: decoding
// reads them at the speed of memory, for which pages of 4 KiB, scattered over memory as the system's cache of
// files has them, are too small.
enum class Repack : uint8_t {
  automatic,  // after the first tokens, where they are in small pages and what is left to copy takes at most
              // half of the free memory
  never,
  always  // at once
};
inline constexpr Repack kRepacks[] = {Repack::automatic, Repack::never, Repack::always};
inline std::string_view repack_name(Repack repack) {
  constexpr std::string_view kNames[] = {"auto", "never", "always"};
  return kNames[static_cast<size_t>(repack)];
}
Repack parse_repack(const std::string& name);  // throws invalid_argument naming the parameter repack

// The weights of a model in mapped files, and how they get into large pages. Their addresses and numbers stay
// what they are, so any number of threads may read them meanwhile.
class WeightPages {
 public:
  // The files stay open as long as this lives. `free_memory` says how many bytes there are, 0 where it does
  // not know; tests have one of their own.
  explicit WeightPages(std::vector<const MappedFile*> files, std::function<int64_t()> free_memory = {});

  // Of those of the views that lie in the files, as far as they fill large pages.
  int64_t bytes(std::span<const TensorView> weights) const;

  // After a step of `rows` tokens that has read these weights: a part of them is copied, if it is time for
  // it. Allocates nothing but while it copies.
  void after_step(ThreadPool& pool, std::span<const TensorView> weights, int64_t rows);
  // Whether more steps of so many tokens would copy anything, or may.
  bool waits_for(int64_t rows) const;
  // Copies all of them that have not been copied. Throws Error where the system has no large pages, or not
  // the memory for the copy and `besides` bytes that are yet to be used.
  void move_all(ThreadPool& pool, std::span<const TensorView> weights, int64_t besides);

  int64_t moved() const { return moved_; }  // bytes

 private:
  // Whole large pages of weights that lie beside each other in a file.
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
  std::vector<Part> left_;         // the next one last
  std::vector<Part> moved_parts_;  // in the order in which they were
  int64_t steps_ = 0, slice_ = 0;
  std::atomic<int64_t> moved_ = 0;
  std::atomic<bool> done_ = false;  // nothing more is to come by itself
};

}  // namespace gpt

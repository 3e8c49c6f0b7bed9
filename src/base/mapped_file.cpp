#include "base/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"

namespace gpt {
namespace {

// Anonymous memory aligned to huge pages. move_to gives up ownership of the memory.
class LargePages {
 public:
  explicit LargePages(size_t size) : size_(size) {
    void* p = mmap(nullptr, size + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    auto* const begin = static_cast<std::byte*>(p);
    const size_t before = -reinterpret_cast<uintptr_t>(p) % kLargePage;
    if (before > 0) munmap(begin, before);
    munmap(begin + before + size, kLargePage - before);
    data_ = begin + before;
    madvise(data_, size, MADV_HUGEPAGE);
  }
  ~LargePages() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  LargePages(const LargePages&) = delete;
  LargePages& operator=(const LargePages&) = delete;

  std::byte* data() const { return data_; }  // null if the allocation failed or the memory was moved
  // Atomically replaces the mapping at `to` with this memory, which becomes read-only. Threads that read at
  // `to` during the call see the same bytes.
  bool move_to(std::byte* to) {
    if (mprotect(data_, size_, PROT_READ) != 0) return false;
    if (mremap(data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) return false;
    data_ = nullptr;
    return true;
  }

 private:
  size_t size_;
  std::byte* data_ = nullptr;
};

struct AddressRange {
  uintptr_t begin = 0, end = 0;
};

// Parses a line of /proc/self/smaps that starts a mapping, "7f0000000000-7f0000200000 r--p ...". Returns an
// empty range for other lines.
AddressRange range_of(const std::string& line) {
  uintptr_t begin = 0, end = 0;
  const char* const last = line.data() + line.size();
  const auto [dash, error] = std::from_chars(line.data(), last, begin, 16);
  if (error != std::errc{} || dash == last || *dash != '-') return {};
  std::from_chars(dash + 1, last, end, 16);
  return {begin, end};
}

// Returns the bytes in huge pages from a line such as "FilePmdMapped:     2048 kB", or 0 for other lines.
int64_t bytes_of_large_pages(const std::string& line) {
  for (const char* key : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"}) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + std::strlen(key), nullptr, 10) * 1024;
  }
  return 0;
}

bool overlaps(std::span<const std::byte> bytes, const AddressRange& range) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  return range.begin < begin + bytes.size() && range.end > begin;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

// Once a part has been moved, its pages no longer belong to the file.
struct MappedFile::Moved {
  std::mutex mutex;
  bool any = false;
};

MappedFile::MappedFile() = default;

MappedFile::MappedFile(const std::string& path) : path_(path), moved_(std::make_unique<Moved>()) {
  const int fd = open_regular_file(path);
  stamp_ = file_stamp(fd);
  size_ = stamp_.bytes;
  if (size_ > 0) {
    void* p = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      const int error = errno;
      close(fd);
      fail("cannot memory-map {} ({} bytes): {}", path, size_, std::strerror(error));
    }
    data_ = static_cast<const std::byte*>(p);
  }
  close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::prefer_large_pages() const {
  if (data_ != nullptr) madvise(const_cast<std::byte*>(data_), size_, MADV_HUGEPAGE);
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty() || part.data() < data_ || part.data() + part.size() > data_ + size_) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = static_cast<size_t>(part.data() - data_) / page * page;
  const size_t end = static_cast<size_t>(part.data() - data_) + part.size();
  const std::lock_guard lock(moved_->mutex);
  if (moved_->any) return;  // MADV_DONTNEED would zero pages that were moved to anonymous memory
  madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

bool MappedFile::move_to_large_pages(ThreadPool& pool, std::span<const std::byte> part) const {
  GPT_ASSERT(part.data() >= data_ && part.data() + part.size() <= data_ + size_);
  const size_t before = -reinterpret_cast<uintptr_t>(part.data()) % kLargePage;
  if (part.size() < before + kLargePage) return true;
  const std::byte* const from = part.data() + before;
  const size_t pages = (part.size() - before) / kLargePage;
  LargePages memory(pages * kLargePage);
  if (memory.data() == nullptr) return false;
  pool.parallel_for(static_cast<int64_t>(pages), [&](int64_t page, int) {
    const size_t at = static_cast<size_t>(page) * kLargePage;
    std::memcpy(memory.data() + at, from + at, kLargePage);
  });
  const std::lock_guard lock(moved_->mutex);
  moved_->any |= memory.move_to(const_cast<std::byte*>(from));
  return memory.data() == nullptr;
}

int64_t bytes_in_large_pages(std::span<const std::span<const std::byte>> memory) {
  std::ifstream file("/proc/self/smaps");
  int64_t bytes = 0;
  bool ours = false;
  for (std::string line; std::getline(file, line);) {
    const AddressRange range = range_of(line);
    if (range.end > 0)
      ours =
          std::ranges::any_of(memory, [&](std::span<const std::byte> part) { return overlaps(part, range); });
    if (ours) bytes += bytes_of_large_pages(line);
  }
  return bytes;
}

// With vm.overcommit_memory 2, mremap may fail after it has already unmapped its target.
std::string no_large_pages_because() {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  std::string file = folder + fmt::format("hugepages-{}kB/enabled", kLargePage >> 10);
  std::string setting = first_line(file.c_str());  // since Linux 6.8; often "inherit"
  if (setting.empty() || setting.find("[inherit]") != std::string::npos) {
    file = folder + "enabled";
    setting = first_line(file.c_str());
  }
  if (setting.empty()) return "the system does not support huge pages";
  if (setting.find("[never]") != std::string::npos) return fmt::format("{} is set to never", file);
  if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1) return "disabled for this process (prctl)";
  if (first_line("/proc/sys/vm/overcommit_memory") == "2") return "vm.overcommit_memory is 2";
  return "";
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(stamp_, other.stamp_);
  std::swap(moved_, other.moved_);
  return *this;
}

}  // namespace gpt

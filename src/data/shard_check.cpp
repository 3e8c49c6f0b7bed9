#include "data/shard_check.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/thread.h"

namespace gpt {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

// Gives the thread the lowest CPU and disk priority. Has no effect on systems other than Linux.
void lower_priority() {
#ifdef __linux__
  constexpr int kProcess = 1, kIdle = 3 << 13;  // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE: ioprio_set(2)
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, thread, 19);
  syscall(SYS_ioprio_set, kProcess, 0, kIdle);
#endif
}

}  // namespace

ShardCheck::ShardCheck(std::vector<CheckedBytes> shards) : shards_(std::move(shards)) {
  for (const CheckedBytes& shard : shards_)
    total_ += shard.checksum ? shard.bytes : 0;
  ended_ = total_ == 0;
  if (!ended_) thread_ = start_thread("checking shards", [this] { run(); });
}

ShardCheck::~ShardCheck() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void ShardCheck::run() {
  lower_priority();
  std::string error;
  for (size_t i = 0; i < shards_.size() && error.empty(); ++i)
    error = check(shards_[i]);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  error_ = std::move(error);
  changed_.notify_all();
}

std::string ShardCheck::check(const CheckedBytes& shard) {
  if (!shard.checksum) return "";
  const int fd = open(shard.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fmt::format("cannot open {}: {}", shard.path, std::strerror(errno));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  std::vector<char> block(kBlock);
  std::string error;
  for (uint64_t done = 0; done < shard.bytes && error.empty();) {
    const size_t size = std::min<uint64_t>(kBlock, shard.bytes - done);
    const ssize_t n = pread(fd, block.data(), size, static_cast<off_t>(shard.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = fmt::format("cannot read {}: {}", shard.path, std::strerror(errno));
    if (n == 0)
      error =
          fmt::format("{} was truncated: expected {} bytes of ids, found {}", shard.path, shard.bytes, done);
    if (n <= 0) break;
    XXH3_64bits_update(hash.get(), block.data(), static_cast<size_t>(n));
    done += static_cast<uint64_t>(n);
    const std::lock_guard lock(mutex_);
    read_ += static_cast<uint64_t>(n);
    if (stop_) break;
  }
  close(fd);
  const uint64_t found = XXH3_64bits_digest(hash.get());
  const std::lock_guard lock(mutex_);
  if (error.empty() && !stop_ && found != *shard.checksum) {
    error = fmt::format("{} is damaged: its ids have the checksum {:016x}, expected {:016x}", shard.path,
                        found, *shard.checksum);
  }
  return error;
}

void ShardCheck::require_good() {
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) fail("{}; run the same gpt data pack command again to repair it", error_);
}

// A removed shard is not an error: it is still mapped, and the next run that needs it reports that it is
// missing.
void ShardCheck::require_unchanged() const {
  for (const CheckedBytes& shard : shards_) {
    const std::optional<FileStamp> now = file_stamp(shard.path);
    if (now && *now != shard.stamp)
      fail("{} changed while it was being read; run the same gpt data pack command again to repair it",
           shard.path);
  }
}

double ShardCheck::finish(double seconds) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ended_; });
  }
  require_good();
  const std::lock_guard lock(mutex_);
  return total_ == 0 ? 1 : static_cast<double>(read_) / static_cast<double>(total_);
}

}  // namespace gpt

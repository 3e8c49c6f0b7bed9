#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"

namespace gpt {

// A byte range of a mapped file, its XXH3 if known, and the state of the file when it was mapped.
struct CheckedBytes {
  std::string path;
  uint64_t offset = 0, bytes = 0;
  std::optional<uint64_t> checksum;
  FileStamp stamp;
};

// Verifies the checksums of shards once, in a background thread with the lowest priority. require_unchanged
// detects later changes by comparing the sizes and modification times of the files.
class ShardCheck {
 public:
  explicit ShardCheck(std::vector<CheckedBytes> shards);
  ~ShardCheck();  // stops the thread
  ShardCheck(const ShardCheck&) = delete;
  ShardCheck& operator=(const ShardCheck&) = delete;

  // Throws Error naming the shard if the check has found a damaged shard.
  void require_good();
  // Waits at most `seconds` for the check to end, then calls require_good. Returns the fraction of bytes
  // read.
  double finish(double seconds);
  // Throws Error naming a shard that was modified or replaced since it was mapped. Does not read the ids.
  void require_unchanged() const;

 private:
  void run();
  std::string check(const CheckedBytes& shard);  // returns a description of the damage, or ""

  std::vector<CheckedBytes> shards_;
  uint64_t total_ = 0;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  uint64_t read_ = 0;
  bool stop_ = false, ended_ = false;
  std::string error_;
  std::thread thread_;
};

}  // namespace gpt

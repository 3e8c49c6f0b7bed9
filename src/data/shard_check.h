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

// Bytes of a file, their XXH3 where it is known, and the file as it was when it was mapped.
struct CheckedBytes {
  std::string path;
  uint64_t offset = 0, bytes = 0;
  std::optional<uint64_t> checksum;
  FileStamp stamp;
};

// Reads shards once beside other work, in a thread of lowest priority, and compares their checksums. That no
// shard is written to afterwards is told by the files' times and sizes, on request.
class ShardCheck {
 public:
  explicit ShardCheck(std::vector<CheckedBytes> shards);
  ~ShardCheck();  // ends the thread
  ShardCheck(const ShardCheck&) = delete;
  ShardCheck& operator=(const ShardCheck&) = delete;

  // Throws Error naming the shard once one was found that is not what it was.
  void require_good();
  // The same after waiting for the end, at most so long. Returns the share of bytes that were read.
  double finish(double seconds);
  // Throws Error naming a shard that was written to or replaced since it was mapped. Reads no ids.
  void require_unchanged() const;

 private:
  void run();
  std::string check(const CheckedBytes& shard);  // what is wrong; "" if nothing

  std::vector<CheckedBytes> shards_;
  uint64_t total_ = 0;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  uint64_t read_ = 0;
  bool stop_ = false, ended_ = false;
  std::string error_;
  std::thread thread_;
};

}  // namespace gpt

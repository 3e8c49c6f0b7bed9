#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gpt {

// Bytes of a file and their XXH3.
struct CheckedBytes {
  std::string path;
  uint64_t offset = 0, bytes = 0;
  uint64_t checksum = 0;
};

// Reads shards once beside other work, in a thread of lowest priority, and compares their checksums.
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

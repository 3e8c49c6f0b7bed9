#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace gpt::serve {

// Decides which requests share cached prompt prefixes: requests of the same client with the same
// "cache_salt". Otherwise, the time of a response would reveal which prompts other clients have sent.
// Thread-safe.
class PrefixSalts {
 public:
  // Returns the value for Request::salt. The least recently used pair of client and salt is forgotten if
  // there are too many. A forgotten pair later receives a different value.
  uint64_t of(size_t client, const std::string& salt);
  static constexpr size_t kMost = 4096, kLongest = 256;  // number of pairs; bytes of a salt

 private:
  using Pair = std::pair<size_t, std::string>;
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::list<std::pair<Pair, uint64_t>> used_;  // most recently used first
  std::map<Pair, std::list<std::pair<Pair, uint64_t>>::iterator> known_;
};

}  // namespace gpt::serve

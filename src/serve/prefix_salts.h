#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace gpt::serve {

// Who shares cached beginnings of prompts: requests of one client with the same "cache_salt". How long an
// answer takes would tell others what has been asked. Any thread.
class PrefixSalts {
 public:
  // For Request::salt. Of the pairs that were not used for longest it is forgotten, and they get another.
  uint64_t of(size_t client, const std::string& salt);
  static constexpr size_t kMost = 4096, kLongest = 256;  // pairs; bytes of a salt

 private:
  using Pair = std::pair<size_t, std::string>;
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::list<std::pair<Pair, uint64_t>> used_;  // the last one was used longest ago
  std::map<Pair, std::list<std::pair<Pair, uint64_t>>::iterator> known_;
};

}  // namespace gpt::serve

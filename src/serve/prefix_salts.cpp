#include "serve/prefix_salts.h"

namespace gpt::serve {

uint64_t PrefixSalts::of(size_t client, const std::string& salt) {
  if (client == 0 && salt.empty()) return 0;
  const std::lock_guard lock(mutex_);
  const Pair pair(client, salt);
  if (const auto known = known_.find(pair); known != known_.end()) {
    used_.splice(used_.begin(), used_, known->second);
    return used_.front().second;
  }
  used_.emplace_front(pair, ++last_);
  known_[pair] = used_.begin();
  if (used_.size() > kMost) {
    known_.erase(used_.back().first);
    used_.pop_back();
  }
  return last_;
}

}  // namespace gpt::serve

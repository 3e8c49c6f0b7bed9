#pragma once

#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace gpt::serve {

// How many requests each client may begin in a minute: a minute's share at once, and then as they come back
// (token bucket). Not for several threads.
class RateLimit {
 public:
  explicit RateLimit(int64_t per_minute) : per_minute_(static_cast<double>(per_minute)) {}  // 0: any number

  // Takes one of a client's requests: 0, or the seconds until there is one.
  double take(const std::string& client, Clock::time_point now);
  static constexpr size_t kMostClients = size_t{1} << 16;  // that are remembered

 private:
  struct Bucket {
    double requests;
    Clock::time_point at;
  };
  double requests(const Bucket& bucket, Clock::time_point now) const;
  void forget(Clock::time_point now);

  const double per_minute_;
  std::unordered_map<std::string, Bucket> clients_;
};

}  // namespace gpt::serve

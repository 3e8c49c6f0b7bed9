#pragma once

#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace gpt::serve {

// Limits the number of requests per client and minute with a token bucket. A client may send the requests of
// a minute all at once; the bucket then refills continuously. Not thread-safe.
class RateLimit {
 public:
  explicit RateLimit(int64_t per_minute) : per_minute_(static_cast<double>(per_minute)) {}  // 0: unlimited

  // Takes one request from a client's bucket. Returns 0, or the seconds until the next request is allowed.
  double take(const std::string& client, Clock::time_point now);
  static constexpr size_t kMostClients = size_t{1} << 16;  // maximum number of remembered clients

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

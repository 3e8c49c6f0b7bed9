#include "serve/rate_limit.h"

#include <algorithm>

namespace gpt::serve {

double RateLimit::take(const std::string& client, Clock::time_point now) {
  constexpr double kMinute = 60;
  if (per_minute_ == 0) return 0;
  if (clients_.size() >= kMostClients) forget(now);
  Bucket& bucket = clients_.try_emplace(client, Bucket{per_minute_, now}).first->second;
  bucket = {requests(bucket, now), now};
  if (bucket.requests < 1) return (1 - bucket.requests) * kMinute / per_minute_;
  --bucket.requests;
  return 0;
}

double RateLimit::requests(const Bucket& bucket, Clock::time_point now) const {
  const double minutes = std::chrono::duration<double, std::ratio<60>>(now - bucket.at).count();
  return std::min(per_minute_, bucket.requests + per_minute_ * minutes);
}

// Forgets clients with a full bucket, because they are equivalent to new clients. If there are none, forgets
// all clients.
void RateLimit::forget(Clock::time_point now) {
  std::erase_if(clients_, [&](const auto& c) { return requests(c.second, now) >= per_minute_; });
  if (clients_.size() >= kMostClients) clients_.clear();
}

}  // namespace gpt::serve

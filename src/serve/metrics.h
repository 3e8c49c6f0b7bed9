#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace gpt::serve {

class ModelSet;

// Counts values in buckets. Thread-safe.
class Histogram {
 public:
  static constexpr std::array<double, 14> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10,   30};
  void add(double value);
  // Writes the histogram in Prometheus' text format.
  void write(std::string& out, const char* name, const char* help) const;

 private:
  std::array<std::atomic<int64_t>, kBounds.size() + 1> counts_ = {};
  std::atomic<double> sum_ = 0;
};

// The counters of the server for GET /metrics. Thread-safe.
struct Metrics {
  void count_request(const std::string& endpoint, int status);
  // Returns the whole page: requests by endpoint and status, tokens, times, and the state of every model.
  std::string page(const ModelSet& models, int64_t connections) const;

  Histogram first_token_time, token_time, request_time;  // in seconds
  std::atomic<int64_t> prompt_tokens = 0, generated_tokens = 0, cached_tokens = 0;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
};

}  // namespace gpt::serve

#pragma once

#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "serve/api.h"
#include "support/patience.h"

namespace gpt::serve {

// Stores the response to one request. The response may come from any thread.
class KeptAnswer : public Responder {
 public:
  explicit KeptAnswer(size_t most_bytes = std::numeric_limits<size_t>::max()) : most_bytes_(most_bytes) {}
  size_t most_bytes() const override { return most_bytes_; }
  void send(HttpReply r) override {
    const std::lock_guard lock(mutex_);
    reply_ = std::move(r);
    there_ = true;
    come_.notify_one();
  }
  void begin_stream(HttpReply) override {}
  void write(std::string_view) override {}
  void end() override {}
  void on_closed(std::function<void()>) override {}
  HttpReply wait() {
    std::unique_lock lock(mutex_);
    if (!come_.wait_for(lock, test::kPatience, [this] { return there_; }))
      throw std::runtime_error("no reply came");
    return reply_;
  }

 private:
  size_t most_bytes_;
  std::mutex mutex_;
  std::condition_variable come_;
  bool there_ = false;
  HttpReply reply_;
};

inline HttpReply ask(Api& api, HttpRequest request, size_t most_bytes = std::numeric_limits<size_t>::max()) {
  const auto answer = std::make_shared<KeptAnswer>(most_bytes);
  api.handle(std::move(request), answer);
  return answer->wait();
}
inline HttpReply get(Api& api, const std::string& target) {
  return ask(api, {.method = "GET", .target = target});
}
inline HttpReply post(Api& api, const std::string& target, const std::string& body) {
  return ask(
      api,
      {.method = "POST", .target = target, .headers = {{"Content-Type", "application/json"}}, .body = body});
}

}  // namespace gpt::serve

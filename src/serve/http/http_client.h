#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace gpt::serve {

// Sends requests to one server. Each request uses a new connection. All functions throw Error that names the
// server if the server cannot be reached or does not speak HTTP.
class HttpClient {
 public:
  // `url` is http://HOST[:PORT][/PATH]; the default path is /v1. `key` is sent as "Authorization: Bearer"; ""
  // sends no key. `most_bytes` limits the body of a response; a larger body throws Error. Throws
  // invalid_argument for other URLs, including https.
  HttpClient(const std::string& url, std::string key, uint64_t most_bytes = uint64_t{256} << 20);
  ~HttpClient();

  const std::string& url() const { return url_; }

  struct Answer {
    int status = 0;
    std::string body;
  };
  Answer get(const std::string& path);
  // Sends JSON and calls `take` with the status and each piece of the body as it arrives. Returns the status.
  int post(const std::string& path, const std::string& body,
           const std::function<void(int status, std::string_view piece)>& take);
  // Aborts a request that is in flight on another thread or on the thread that a signal interrupted.
  // Async-signal-safe.
  void cancel();

 private:
  struct Impl;
  int ask(bool posts, const std::string& path, const std::string& body,
          const std::function<void(int status, std::string_view piece)>& take);

  std::string url_, host_, port_, path_, key_;
  uint64_t most_bytes_;
  std::unique_ptr<Impl> impl_;
};

// Parses a stream of server-sent events (HTML standard, section 9.2) piece by piece.
class EventReader {
 public:
  // `take` is called with the data of each event. Several data lines are joined by newlines.
  explicit EventReader(std::function<void(const std::string& data)> take) : take_(std::move(take)) {}
  void push(std::string_view piece);
  static constexpr size_t kLongest = size_t{16}
                                     << 20;  // maximum bytes of an event; a longer event throws Error

 private:
  void take_line(std::string_view line);

  std::function<void(const std::string&)> take_;
  std::string line_, data_;
  bool any_ = false;
};

}  // namespace gpt::serve

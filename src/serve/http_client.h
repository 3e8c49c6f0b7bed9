#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace gpt::serve {

// Requests to one server, each over a connection of its own. All of it throws Error, which names the server,
// where it cannot be reached or does not speak HTTP.
class HttpClient {
 public:
  // url: http://HOST[:PORT][/PATH]; without a path it is /v1. key: for "Authorization: Bearer"; "": none.
  // most_bytes: of the body of an answer; Error beyond it. Throws invalid_argument for what is no such
  // address; https is refused by name.
  HttpClient(const std::string& url, std::string key, uint64_t most_bytes = uint64_t{256} << 20);
  ~HttpClient();

  const std::string& url() const { return url_; }

  struct Answer {
    int status = 0;
    std::string body;
  };
  Answer get(const std::string& path);
  // Sends JSON, and calls `take` with the status and pieces of the body as they come; returns the status.
  int post(const std::string& path, const std::string& body,
           const std::function<void(int status, std::string_view piece)>& take);
  // Ends what another thread, or the one that a signal interrupts, is waiting for. Async-signal-safe.
  void cancel();

 private:
  struct Impl;
  int ask(bool posts, const std::string& path, const std::string& body,
          const std::function<void(int status, std::string_view piece)>& take);

  std::string url_, host_, port_, path_, key_;
  uint64_t most_bytes_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt::serve

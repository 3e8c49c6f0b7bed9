#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http.h"

namespace gpt::serve {

// What one client, and all together, may take. Times are in seconds.
struct ServerLimits {
  int64_t body_bytes = int64_t{1} << 20;
  int64_t header_bytes = int64_t{16} << 10;  // all lines of a request's head together
  int64_t header_count = 100;
  int64_t connections = 1024;
  double silence = 0.05;  // a connection that came just now is not a silent one
  // Limits of queued response bytes: per connection, and in total. Beyond the first a stream
  // ends with its connection and a whole response is replaced by an error; beyond the second the connection
  // whose client reads most slowly is closed.
  int64_t unsent_bytes = int64_t{128} << 20, total_unsent_bytes = int64_t{512} << 20;
  double read_rate = 16384;  // bytes per second that a client must read, write_time aside
  double header_time = 10;   // from a request's first byte to the end of its head
  double body_time = 30;     // for the rest of the request
  double idle_time = 60;     // between two requests
  double write_time = 30;    // without a byte leaving, while some are waiting
  double total_time = 900;   // from a complete request to a complete answer
};

// An HTTP/1.1 server on one thread. It reads requests, hands them over, and sends what the Responders are
// given; a client that is too slow, too large or gone is its business alone.
//
// Connections are kept alive. When there are too many, the one that has been silent for longest goes; with
// none silent a new one gets 503. A client that closes its side of the connection has gone.
class HttpServer {
 public:
  // Takes a request, on the server's thread: it must not block. What it throws is answered with
  // current_error.
  using Handler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;

  // host: an IPv4 or IPv6 address or "localhost"; port 0: any free one. Listens from now on. Throws Error
  // where the address cannot be used.
  HttpServer(const std::string& host, int port, const ServerLimits& limits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string url() const;   // "http://127.0.0.1:8080"
  bool is_loopback() const;  // whether only this machine can reach it

  // What a stream that exceeds total_time ends with. Before `run`.
  void set_timeout_event(std::string event);
  // Calls `then` on the server's thread for SIGINT and SIGTERM, with how many there have been. Before `run`.
  void on_signal(std::function<void(int count)> then);

  void run();   // until `stop`, on the calling thread
  void stop();  // any thread: closes all connections

  // Calls a function on the server's thread, after some seconds. Any thread.
  void after(double seconds, std::function<void()> then);

  int64_t connections() const;   // any thread
  int64_t unsent_bytes() const;  // of all responses; any thread
  // On the server's thread: whether a request has begun to come, or an answer is not yet sent in full.
  bool busy() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt::serve

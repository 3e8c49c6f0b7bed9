#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/http.h"

namespace gpt::serve {

// Limits for a single client and for all clients together. Times are in seconds.
struct ServerLimits {
  int64_t body_bytes = int64_t{1} << 20;
  int64_t header_bytes = int64_t{16} << 10;  // total size of a request's header lines
  int64_t header_count = 100;
  int64_t connections = 1024;
  double silence = 0.05;  // minimum idle time before a connection may be closed to make room
  // Maximum number of queued response bytes per connection and in total. If a stream exceeds the limit of its
  // connection, the connection is closed; a whole response is replaced by an error. If the total exceeds its
  // limit, the connection with the slowest reader is closed.
  int64_t unsent_bytes = int64_t{128} << 20, total_unsent_bytes = int64_t{512} << 20;
  double read_rate = 16384;  // minimum bytes per second that a client must read, in addition to write_time
  double header_time = 10;   // from the first byte of a request to the end of its headers
  double body_time = 30;     // for the body of a request
  double idle_time = 60;     // between two requests
  double write_time = 30;    // maximum time without a byte sent while bytes are queued
  double total_time = 900;   // from a complete request to a complete response
};

// An HTTP/1.1 server on one thread. The server reads requests, passes them to the handler, and sends the
// bytes that the Responders receive. Slow, oversized or disconnected clients do not affect other clients.
//
// Connections are kept alive. If there are too many, the connection that has been idle for the longest time
// is closed. If no connection is idle, a new connection receives status 503. A client that closes its side of
// the connection counts as disconnected.
class HttpServer {
 public:
  // Handles a request on the server thread. The handler must not block. An exception from the handler is sent
  // as the response (see current_error).
  using Handler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;

  // `host` is an IPv4 or IPv6 address or "localhost". Port 0 selects a free port. The server listens as soon
  // as it is constructed. Throws Error if the address cannot be used.
  HttpServer(const std::string& host, int port, const ServerLimits& limits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string url() const;   // "http://127.0.0.1:8080"
  bool is_loopback() const;  // true if only this machine can reach the server

  // Sets the event that ends a stream if it exceeds total_time. Must be called before `run`.
  void set_timeout_event(std::string event);
  // Calls `then` on the server thread for each SIGINT and SIGTERM with the number of signals so far. Must be
  // called before `run`.
  void on_signal(std::function<void(int count)> then);

  void run();   // runs on the calling thread until `stop`
  void stop();  // closes all connections; thread-safe

  // Calls a function on the server thread after `seconds` seconds. Thread-safe.
  void after(double seconds, std::function<void()> then);

  int64_t connections() const;   // thread-safe
  int64_t unsent_bytes() const;  // of all responses; thread-safe
  // Returns true if a request is being received or a response is not yet sent completely. Must be called on
  // the server thread.
  bool busy() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpt::serve

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace gpt::serve {

// The response to one request. Any thread may write it. The connection takes the resulting HTTP/1.1 bytes and
// sends them.
class HttpExchange : public Responder {
 public:
  struct Options {
    bool http11 = true;      // false: a stream ends when the connection closes
    bool keep_alive = true;  // true if the client wants to keep the connection open
    bool head_only = false;  // HEAD request: send no body
    size_t most_unsent = size_t{128} << 20;
    // Counter of the unsent bytes of all exchanges. May be null. Must outlive the exchange.
    std::atomic<int64_t>* total_unsent = nullptr;
  };
  // `wake` is called when there are new bytes to take. Any thread may call `wake`.
  HttpExchange(const Options& options, std::function<void()> wake)
      : options_(options), wake_(std::move(wake)) {}

  void send(HttpReply reply) override;
  void begin_stream(HttpReply head) override;
  void write(std::string_view piece) override;
  void end() override;
  void on_closed(std::function<void()> then) override;
  size_t most_bytes() const override { return options_.most_unsent; }

  // The functions below are for the connection. `take` moves the queued bytes to `bytes` and sets `ended` if
  // no more bytes will follow. Returns false if there is nothing to send.
  bool take(std::string& bytes, bool& ended);
  void sent(size_t bytes);
  bool too_slow();    // returns true if a stream has more unsent bytes than allowed
  size_t unsent();    // returns the number of bytes that are queued, or taken and not yet sent
  bool keep_alive();  // returns true if another request may follow after the end of the response
  // Called when the client has disconnected or received the whole response. Afterwards no callback is called
  // and no bytes can be taken.
  void close();
  // Ends a response that takes too long. The sender is notified as if the client had disconnected. The client
  // receives `last_words` at the end of its stream, or status 504 if nothing was sent yet.
  void time_out(const std::string& last_words);

 private:
  enum class State : uint8_t { waiting, streaming, ended, closed };
  std::string head_of(const HttpReply& reply, std::string_view framing) const;
  void append(std::string_view bytes);
  void count_unsent(int64_t bytes);
  void append_piece(std::string_view piece);
  void schedule();

  std::mutex mutex_;
  Options options_;
  std::function<void()> wake_, on_closed_;
  State state_ = State::waiting;
  std::string pending_;
  size_t unsent_ = 0;  // bytes that are queued, or taken and not yet sent
  bool streams_ = false, scheduled_ = false;
};

}  // namespace gpt::serve

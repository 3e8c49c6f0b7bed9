#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace gpt::serve {

// The answer to one request, on its way from any thread to the connection that sends it: bytes of HTTP/1.1
// that wait to be taken.
class HttpExchange : public Responder {
 public:
  struct Options {
    bool http11 = true;      // else a stream ends with its connection
    bool keep_alive = true;  // whether the client wants to go on
    bool head_only = false;  // HEAD: no body
    size_t most_unsent = size_t{128} << 20;
    std::atomic<int64_t>* total_unsent = nullptr;  // the unsent bytes of all exchanges, or null; outlives it
  };
  // `wake` is called, by any thread, when there is something to take that was not there before.
  HttpExchange(const Options& options, std::function<void()> wake)
      : options_(options), wake_(std::move(wake)) {}

  void send(HttpReply reply) override;
  void begin_stream(HttpReply head) override;
  void write(std::string_view piece) override;
  void end() override;
  void on_closed(std::function<void()> then) override;
  size_t most_bytes() const override { return options_.most_unsent; }

  // For the connection. What there is to send, into `bytes`, and whether nothing will follow; false: nothing.
  bool take(std::string& bytes, bool& ended);
  void sent(size_t bytes);
  bool too_slow();    // more is unsent of a stream than is allowed
  size_t unsent();    // bytes queued, or taken and not yet sent
  bool keep_alive();  // once ended: whether another request may follow
  // The client has gone, or has all of the answer. Nothing is called or taken from now on.
  void close();
  // Tells whoever answers that the client has gone, and the client, in the last words of its stream or with
  // 504, why there is no more.
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
  size_t unsent_ = 0;  // pending, or taken and not yet sent
  bool streams_ = false, scheduled_ = false;
};

}  // namespace gpt::serve

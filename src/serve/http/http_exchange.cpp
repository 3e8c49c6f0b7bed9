#include "serve/http/http_exchange.h"

#include <fmt/format.h>

#include "serve/api_error.h"

namespace gpt::serve {

std::string HttpExchange::head_of(const HttpReply& reply, std::string_view framing) const {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}", reply.status,
                                 status_text(reply.status), reply.content_type, framing);
  for (const auto& [name, value] : reply.headers)
    head += fmt::format("{}: {}\r\n", name, value);
  head += "X-Content-Type-Options: nosniff\r\n";
  if (!options_.keep_alive) head += "Connection: close\r\n";
  return head + "\r\n";
}

void HttpExchange::append(std::string_view bytes) {
  pending_ += bytes;
  count_unsent(std::ssize(bytes));
}

// Adds `bytes` to the count of unsent bytes. The number may be negative.
void HttpExchange::count_unsent(int64_t bytes) {
  unsent_ += static_cast<size_t>(bytes);
  if (options_.total_unsent != nullptr) *options_.total_unsent += bytes;
}

void HttpExchange::send(HttpReply reply) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::waiting) return;
  append(head_of(reply, fmt::format("Content-Length: {}\r\n", reply.body.size())));
  if (!options_.head_only) append(reply.body);
  state_ = State::ended;
  schedule();
}

// HTTP/1.0 does not support chunked encoding, so a stream ends when the connection closes.
void HttpExchange::begin_stream(HttpReply head) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::waiting) return;
  options_.keep_alive = options_.keep_alive && options_.http11;
  append(head_of(head, options_.http11 ? "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n"
                                       : "Cache-Control: no-cache\r\n"));
  state_ = State::streaming;
  streams_ = true;
  append_piece(head.body);
  schedule();
}

void HttpExchange::append_piece(std::string_view piece) {
  if (piece.empty() || options_.head_only) return;
  if (!options_.http11) return append(piece);
  append(fmt::format("{:x}\r\n", piece.size()));
  append(piece);
  append("\r\n");
}

void HttpExchange::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::streaming) return;
  append_piece(piece);
  schedule();
}

void HttpExchange::end() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::streaming) return;
  if (options_.http11 && !options_.head_only) append("0\r\n\r\n");
  state_ = State::ended;
  schedule();
}

// Calls wake_ at most once before the connection takes the queued bytes.
void HttpExchange::schedule() {
  if (scheduled_ || !wake_) return;
  scheduled_ = true;
  wake_();
}

void HttpExchange::on_closed(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::closed) {
      on_closed_ = std::move(then);
      return;
    }
  }
  then();
}

bool HttpExchange::take(std::string& bytes, bool& ended) {
  const std::lock_guard lock(mutex_);
  scheduled_ = false;
  bytes.clear();
  std::swap(bytes, pending_);
  ended = state_ == State::ended;
  return !bytes.empty() || ended;
}

void HttpExchange::sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  count_unsent(-static_cast<int64_t>(bytes));
}

bool HttpExchange::too_slow() {
  const std::lock_guard lock(mutex_);
  return streams_ && unsent_ > options_.most_unsent;
}

size_t HttpExchange::unsent() {
  const std::lock_guard lock(mutex_);
  return unsent_;
}

bool HttpExchange::keep_alive() {
  const std::lock_guard lock(mutex_);
  return options_.keep_alive;
}

void HttpExchange::close() {
  std::function<void()> wake, then;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::ended || unsent_ > 0) then = std::move(on_closed_);
    state_ = State::closed;
    count_unsent(-static_cast<int64_t>(unsent_));
    pending_ = {};
    wake = std::exchange(wake_, nullptr);  // holds the connection, so it is destroyed without the lock
    on_closed_ = nullptr;
  }
  if (then) then();
}

void HttpExchange::time_out(const std::string& last_words) {
  std::function<void()> then;
  bool begun = false;
  {
    const std::lock_guard lock(mutex_);
    then = std::exchange(on_closed_, nullptr);
    begun = state_ != State::waiting;
    options_.keep_alive = options_.keep_alive && begun;
  }
  if (then) then();
  if (!begun) send(ApiError(504, "the response took longer than this server allows", {}, "timeout").reply());
  write(last_words);
  end();
}

}  // namespace gpt::serve

#include "serve/http/http_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "serve/api_error.h"
#include "serve/http/http_exchange.h"
#include "serve/http/http_parser.h"

namespace gpt::serve {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using net::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr double kSweep = 0.2;         // seconds between two checks of the deadlines
constexpr double kAcceptPause = 0.02;  // seconds to wait if no file descriptor is available
// Seconds for a client to read the response to a request that it has not sent completely.
constexpr double kLinger = 2;
constexpr double kNewReader = 1;  // seconds before the reading rate of a client is measured
constexpr size_t kReadSize = 4096;
constexpr size_t kKeptBuffer = 65536;  // a larger buffer is freed after its bytes were sent

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class Connection;

}  // namespace

struct HttpServer::Impl {
  Impl(const std::string& host, int port, const ServerLimits& l, Handler h);
  void accept();
  void take_client(tcp::socket socket);
  bool make_room();
  void limit_unsent();
  void sweep();
  void pause_accepting();

  net::io_context context{1};
  tcp::acceptor acceptor{context};
  net::steady_timer sweep_timer{context}, accept_timer{context};
  net::signal_set signals{context};
  ServerLimits limits;
  Handler handler;
  std::string timeout_event;
  std::function<void(int)> on_signal;
  int signal_count = 0;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  std::atomic<int64_t> connection_count = 0;
  std::atomic<int64_t> unsent_bytes = 0;
};

namespace {

// A client's connection. All functions run on the server thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The parser limits the size of the headers and the body. Trailers and chunk extensions are only limited by
  // the size of the buffer.
  Connection(HttpServer::Impl& server, tcp::socket socket)
      : server_(server),
        socket_(std::move(socket)),
        buffer_(static_cast<size_t>(server.limits.header_bytes) + kReadSize) {
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    const tcp::endpoint peer = socket_.remote_endpoint(ignored);
    if (!ignored) peer_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
  }

  void start() { await_request(); }
  void refuse(int status, const std::string& message);
  void check_deadlines(Clock::time_point now);
  void send_pending(uint64_t exchange);
  void close();
  bool busy() const;
  // Returns the time since which the connection has waited for a request. Returns nullopt while a body is
  // received or a request is being answered.
  std::optional<Clock::time_point> silent_since() const {
    const bool silent = phase_ == Phase::idle || phase_ == Phase::head || phase_ == Phase::lingering;
    return silent ? std::optional(since_) : std::nullopt;
  }
  // Returns the rate in bytes per second at which the client reads the current response. The rate is infinite
  // if sending has just started. Returns nullopt if all bytes have been sent.
  std::optional<double> read_rate(Clock::time_point now) const;

 private:
  enum class Phase : uint8_t { idle, head, body, answering, lingering, closed };
  void enter(Phase phase, double seconds);
  bool client_gone();
  void await_request();
  void watch();
  void on_watched(ErrorCode error, size_t bytes);
  void read_head();
  void on_head(ErrorCode error);
  bool accept_head();
  bool accept_encoding();
  void read_body();
  void on_body(ErrorCode error);
  void refuse_for(ErrorCode error, const char* part);
  HttpRequest request();
  std::shared_ptr<HttpExchange> begin_exchange(bool keep_alive);
  void write_next();
  void write_some();
  void on_written(ErrorCode error, size_t bytes);
  void finish_exchange();

  HttpServer::Impl& server_;
  tcp::socket socket_;
  std::string peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<RequestParser> parser_;
  Phase phase_ = Phase::idle;
  Clock::time_point since_ = {}, deadline_ = {}, answer_by_ = {};
  bool watching_ = false, timed_out_ = false;
  size_t discarded_ = 0;                    // number of bytes discarded while lingering
  std::shared_ptr<HttpExchange> exchange_;  // set while a request is being answered
  uint64_t exchange_number_ = 0;
  std::string writing_;
  size_t written_ = 0;
  bool last_write_ = false;
  Clock::time_point write_since_ = {}, write_by_ = {};  // for the bytes that are being written
};

bool Connection::busy() const {
  if (phase_ != Phase::idle)
    return phase_ == Phase::head || phase_ == Phase::body || phase_ == Phase::answering;
  ErrorCode ignored;
  return buffer_.size() > 0 || socket_.available(ignored) > 0;
}

// -------------------------------------------------------------------------------------------------------
// Reading.

void Connection::enter(Phase phase, double seconds) {
  phase_ = phase;
  since_ = Clock::now();
  deadline_ = in_seconds(seconds);
}

void Connection::await_request() {
  enter(Phase::idle, server_.limits.idle_time);
  if (buffer_.size() > 0) return read_head();
  watch();
}

// Waits for bytes of the next request or, while a request is being answered, for the end of the connection.
// If bytes of a next request have already arrived, client_gone checks for the end of the connection instead.
void Connection::watch() {
  if (watching_ || buffer_.size() > 0 || phase_ == Phase::closed) return;
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(kReadSize),
                          [self = shared_from_this()](ErrorCode e, size_t n) { self->on_watched(e, n); });
}

void Connection::on_watched(ErrorCode error, size_t bytes) {
  watching_ = false;
  if (phase_ == Phase::closed) return;
  if (error) return close();
  buffer_.commit(bytes);
  if (phase_ == Phase::idle) return read_head();
  if (phase_ != Phase::lingering) return;
  discarded_ += bytes;
  buffer_.consume(buffer_.size());
  if (discarded_ > static_cast<size_t>(server_.limits.body_bytes)) return close();
  watch();
}

void Connection::read_head() {
  enter(Phase::head, server_.limits.header_time);
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(server_.limits.header_bytes));
  parser_->body_limit(static_cast<uint64_t>(server_.limits.body_bytes));
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode e, size_t) { self->on_head(e); });
}

void Connection::on_head(ErrorCode error) {
  if (phase_ == Phase::closed) return;
  if (error == http::error::bad_transfer_encoding) {
    accept_encoding();
    return;
  }
  if (error) return refuse_for(error, "head");
  if (accept_head()) read_body();
}

// Checks properties of the headers that Beast's parser does not check.
bool Connection::accept_head() {
  const auto& head = parser_->get();
  const auto refused = [&](int status, const char* message) {
    refuse(status, message);
    return false;
  };
  if (std::distance(head.begin(), head.end()) > server_.limits.header_count)
    return refused(431, "the request has too many headers");
  if (head.version() != 10 && head.version() != 11) return refused(400, "expected HTTP/1.1");
  if (head.count(http::field::host) > 1) return refused(400, "the request names more than one Host");
  if (head.count(http::field::transfer_encoding) > 0 && !accept_encoding()) return false;
  const auto expect = head[http::field::expect];
  if (!expect.empty() && !equal_ignoring_case({expect.data(), expect.size()}, "100-continue"))
    return refused(417, "expected \"100-continue\" as the only Expect");
  return true;
}

// RFC 9112, section 6: Transfer-Encoding requires HTTP/1.1. A request that also has Content-Length may be an
// attempt at request smuggling. This server only decodes "chunked".
bool Connection::accept_encoding() {
  const auto& head = parser_->get();
  if (head.count(http::field::content_length) > 0) {
    refuse(400, "expected either Content-Length or Transfer-Encoding, found both");
    return false;
  }
  const auto coding = head[http::field::transfer_encoding];
  const bool chunked = parser_->chunked() && equal_ignoring_case({coding.data(), coding.size()}, "chunked");
  if (parser_->is_header_done() && chunked && head.version() == 11 && !parser_->folded_encoding() &&
      head.count(http::field::transfer_encoding) == 1)
    return true;
  refuse(501, "expected \"chunked\" as the only Transfer-Encoding, on one line and with HTTP/1.1");
  return false;
}

void Connection::read_body() {
  enter(Phase::body, server_.limits.body_time);
  const auto read = [self = shared_from_this()] {
    http::async_read(self->socket_, self->buffer_, *self->parser_,
                     [self](ErrorCode e, size_t) { self->on_body(e); });
  };
  if (parser_->is_done() || parser_->get()[http::field::expect].empty()) return read();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  net::async_write(socket_, net::buffer(kContinue.data(), kContinue.size()),
                   [self = shared_from_this(), read](ErrorCode e, size_t) {
                     if (self->phase_ == Phase::closed) return;
                     if (e) return self->close();
                     read();
                   });
}

void Connection::on_body(ErrorCode error) {
  if (phase_ == Phase::closed) return;
  if (error) return refuse_for(error, "body");
  const bool keep_alive = parser_->keep_alive();
  const std::shared_ptr<HttpExchange> exchange = begin_exchange(keep_alive);
  try {
    server_.handler(request(), exchange);
  } catch (const std::exception&) {
    exchange->send(current_error().reply());
  }
  watch();
}

HttpRequest Connection::request() {
  auto message = parser_->release();
  HttpRequest out{.method = std::string(message.method_string()), .target = std::string(message.target())};
  for (const auto& field : message)
    out.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  out.body = std::move(message.body());
  out.peer = peer_;
  return out;
}

// Handles a request that is not valid HTTP or exceeds a limit.
void Connection::refuse_for(ErrorCode error, const char* part) {
  if (timed_out_) return refuse(408, fmt::format("the {} of the request took too long to arrive", part));
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return refuse(431, "the head of the request is too large");
  if (error == http::error::body_limit)
    return refuse(413,
                  fmt::format("the body of the request is larger than {} bytes", server_.limits.body_bytes));
  const bool gone = error == http::error::end_of_stream || error == http::error::partial_message ||
                    error.category() != http::make_error_code(http::error::bad_value).category();
  if (gone) return close();
  refuse(400, fmt::format("the request is not HTTP/1.1: {}", error.message()));
}

void Connection::refuse(int status, const std::string& message) {
  begin_exchange(false)->send(ApiError(status, message).reply());
}

// -------------------------------------------------------------------------------------------------------
// Writing.

std::shared_ptr<HttpExchange> Connection::begin_exchange(bool keep_alive) {
  enter(Phase::answering, server_.limits.total_time);
  answer_by_ = deadline_;
  timed_out_ = false;
  last_write_ = false;
  const uint64_t number = ++exchange_number_;
  HttpExchange::Options options{.keep_alive = keep_alive,
                                .most_unsent = static_cast<size_t>(server_.limits.unsent_bytes),
                                .total_unsent = &server_.unsent_bytes};
  if (parser_ && parser_->is_header_done()) {
    options.http11 = parser_->get().version() == 11;
    options.head_only = parser_->get().method() == http::verb::head;
  }
  exchange_ = std::make_shared<HttpExchange>(options, [self = shared_from_this(), number] {
    net::post(self->server_.context, [self, number] { self->send_pending(number); });
  });
  return exchange_;
}

void Connection::send_pending(uint64_t exchange) {
  server_.limit_unsent();
  if (exchange != exchange_number_ || phase_ != Phase::answering || !exchange_) return;
  if (exchange_->too_slow()) return close();
  if (writing_.empty()) write_next();
}

void Connection::write_next() {
  if (exchange_->too_slow()) return close();
  if (!exchange_->take(writing_, last_write_)) {
    deadline_ = answer_by_;
    return;
  }
  written_ = 0;
  if (writing_.empty()) return finish_exchange();
  const auto& limits = server_.limits;
  write_since_ = Clock::now();
  write_by_ = in_seconds(limits.write_time + static_cast<double>(writing_.size()) / limits.read_rate);
  write_some();
}

void Connection::write_some() {
  deadline_ = std::min(in_seconds(server_.limits.write_time), write_by_);
  socket_.async_write_some(net::buffer(writing_.data() + written_, writing_.size() - written_),
                           [self = shared_from_this()](ErrorCode e, size_t n) { self->on_written(e, n); });
}

void Connection::on_written(ErrorCode error, size_t bytes) {
  if (phase_ == Phase::closed) return;
  if (error) return close();
  exchange_->sent(bytes);
  written_ += bytes;
  if (written_ < writing_.size()) return write_some();
  writing_.clear();
  if (writing_.capacity() > kKeptBuffer) writing_.shrink_to_fit();
  if (last_write_) return finish_exchange();
  write_next();
}

std::optional<double> Connection::read_rate(Clock::time_point now) const {
  if (!exchange_ || exchange_->unsent() == 0) return std::nullopt;
  const double seconds = std::chrono::duration<double>(now - write_since_).count();
  if (writing_.empty() || seconds < kNewReader) return std::numeric_limits<double>::infinity();
  return static_cast<double>(written_) / seconds;
}

void Connection::finish_exchange() {
  const std::shared_ptr<HttpExchange> exchange = std::exchange(exchange_, nullptr);
  const bool keep_alive = exchange->keep_alive();
  exchange->close();
  if (keep_alive) return await_request();
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  enter(Phase::lingering, kLinger);
  buffer_.consume(buffer_.size());
  watch();
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  const std::shared_ptr<Connection> self = shared_from_this();
  ErrorCode ignored;
  socket_.close(ignored);
  if (exchange_) std::exchange(exchange_, nullptr)->close();
  server_.connections.erase(this);
  --server_.connection_count;
}

// Returns true if the client has closed its side of the connection, even if there are unread bytes.
bool Connection::client_gone() {
  pollfd end{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&end, 1, 0) > 0;
}

void Connection::check_deadlines(Clock::time_point now) {
  if (phase_ == Phase::answering && !watching_ && client_gone()) return close();
  if (phase_ == Phase::answering && now > answer_by_ && !timed_out_) {
    timed_out_ = true;
    answer_by_ = deadline_ = in_seconds(server_.limits.write_time);
    return exchange_->time_out(server_.timeout_event);
  }
  if (now <= deadline_ && (phase_ != Phase::answering || now <= answer_by_)) return;
  if ((phase_ == Phase::head || phase_ == Phase::body) && !timed_out_) {
    timed_out_ = true;
    ErrorCode ignored;
    socket_.cancel(ignored);  // ends the pending read, which then sends status 408
    return;
  }
  close();
}

}  // namespace

// -------------------------------------------------------------------------------------------------------
// The server.

HttpServer::Impl::Impl(const std::string& host, int port, const ServerLimits& l, Handler h)
    : limits(l), handler(std::move(h)) {
  ErrorCode error;
  const net::ip::address address = net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) gpt::fail_parameter("host", "expected an IPv4 or IPv6 address or localhost, found \"{}\"", host);
  const tcp::endpoint endpoint(address, static_cast<uint16_t>(port));
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error)
    gpt::fail("cannot listen on {}:{}: {}; choose another port, or 0 for any free one", host, port,
              error.message());
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
    if (error == net::error::operation_aborted) return;
    if (!error) {
      take_client(std::move(socket));
      return accept();
    }
    make_room() ? accept() : pause_accepting();
  });
}

// Called if file descriptors or memory run out and all connections are in use, so that none can be closed.
// New clients stay in the queue of the operating system.
void HttpServer::Impl::pause_accepting() {
  accept_timer.expires_at(in_seconds(kAcceptPause));
  accept_timer.async_wait([this](ErrorCode error) {
    if (!error) accept();
  });
}

void HttpServer::Impl::take_client(tcp::socket socket) {
  const bool room = std::ssize(connections) < limits.connections || make_room();
  const auto connection = std::make_shared<Connection>(*this, std::move(socket));
  connections.emplace(connection.get(), connection);
  ++connection_count;
  if (room) return connection->start();
  connection->refuse(503, "the server has reached its maximum number of connections");
}

// Closes the connection that has been idle for the longest time. Returns false if there is none. A new
// connection does not count as idle because its request may be on the way.
bool HttpServer::Impl::make_room() {
  const Clock::time_point latest = in_seconds(-limits.silence);
  std::shared_ptr<Connection> oldest;
  for (const auto& [unused, connection] : connections) {
    const auto since = connection->silent_since();
    if (since && *since <= (oldest ? *oldest->silent_since() : latest)) oldest = connection;
  }
  if (oldest) oldest->close();
  return oldest != nullptr;
}

// Closes connections, the slowest reader first, until the unsent bytes are within their limit.
void HttpServer::Impl::limit_unsent() {
  while (unsent_bytes > limits.total_unsent_bytes) {
    const auto now = Clock::now();
    std::shared_ptr<Connection> slowest;
    double least = 0;
    for (const auto& [unused, connection] : connections) {
      const auto rate = connection->read_rate(now);
      if (!rate || (slowest && *rate >= least)) continue;
      slowest = connection;
      least = *rate;
    }
    if (!slowest) return;
    slowest->close();
  }
}

void HttpServer::Impl::sweep() {
  sweep_timer.expires_at(in_seconds(kSweep));
  sweep_timer.async_wait([this](ErrorCode error) {
    if (error) return;
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [unused, connection] : connections)
      all.push_back(connection);
    const auto now = Clock::now();
    for (const auto& connection : all)
      connection->check_deadlines(now);
    sweep();
  });
}

HttpServer::HttpServer(const std::string& host, int port, const ServerLimits& limits, Handler handler)
    : impl_(std::make_unique<Impl>(host, port, limits, std::move(handler))) {}

HttpServer::~HttpServer() {
  try {
    stop();
    for (int round = 0; round < 2; ++round) {  // cancelled operations release their connections
      impl_->context.restart();
      impl_->context.poll();
    }
  } catch (const std::exception&) {  // the context ends the remaining operations
  }
}

int HttpServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

std::string HttpServer::url() const {
  const net::ip::address address = impl_->acceptor.local_endpoint().address();
  return address.is_v6() ? fmt::format("http://[{}]:{}", address.to_string(), port())
                         : fmt::format("http://{}:{}", address.to_string(), port());
}

bool HttpServer::is_loopback() const {
  return impl_->acceptor.local_endpoint().address().is_loopback();
}

void HttpServer::set_timeout_event(std::string event) {
  impl_->timeout_event = std::move(event);
}

void HttpServer::on_signal(std::function<void(int)> then) {
  impl_->on_signal = std::move(then);
  impl_->signals.add(SIGINT);
  impl_->signals.add(SIGTERM);
  struct Wait {
    static void next(Impl& impl) {
      impl.signals.async_wait([&impl](ErrorCode error, int) {
        if (error) return;
        impl.on_signal(++impl.signal_count);
        next(impl);
      });
    }
  };
  Wait::next(*impl_);
}

void HttpServer::run() {
  impl_->accept();
  impl_->sweep();
  impl_->context.run();
}

void HttpServer::stop() {
  net::post(impl_->context, [impl = impl_.get()] {
    ErrorCode ignored;
    impl->acceptor.close(ignored);
    impl->sweep_timer.cancel();
    impl->accept_timer.cancel();
    impl->signals.cancel(ignored);
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [unused, connection] : impl->connections)
      all.push_back(connection);
    for (const auto& connection : all)
      connection->close();
    impl->context.stop();
  });
}

void HttpServer::after(double seconds, std::function<void()> then) {
  const auto timer = std::make_shared<net::steady_timer>(impl_->context, in_seconds(seconds));
  timer->async_wait([timer, then = std::move(then)](ErrorCode error) {
    if (!error) then();
  });
}

bool HttpServer::busy() const {
  return std::ranges::any_of(impl_->connections, [](const auto& c) { return c.second->busy(); });
}

int64_t HttpServer::connections() const {
  return impl_->connection_count;
}

int64_t HttpServer::unsent_bytes() const {
  return impl_->unsent_bytes;
}

}  // namespace gpt::serve

#include "serve/http/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <sys/socket.h>
#include <atomic>
#include <limits>

#include "base/error.h"
#include "base/parse.h"

namespace gpt::serve {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

}  // namespace

struct HttpClient::Impl {
  std::atomic<int> socket = -1;
};

HttpClient::HttpClient(const std::string& url, std::string key, uint64_t most_bytes)
    : url_(url), key_(std::move(key)), most_bytes_(most_bytes), impl_(std::make_unique<Impl>()) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) fail_usage("{}: expected http://HOST:PORT; use a proxy for TLS", url);
  while (url_.ends_with('/'))
    url_.pop_back();
  const std::string rest = url_.substr(std::min(kScheme.size(), url_.size()));
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string place = rest.substr(0, slash);
  path_ = slash < rest.size() ? rest.substr(slash) : "/v1";
  const size_t colon = place.rfind(':');
  const bool has_port = colon != std::string::npos && place.find(']', colon) == std::string::npos;
  port_ = has_port ? place.substr(colon + 1) : "80";
  host_ = has_port ? place.substr(0, colon) : place;
  if (host_.starts_with('[') && host_.ends_with(']')) host_ = host_.substr(1, host_.size() - 2);
  const auto port = parse_number<int>(port_);
  if (host_.empty() || !port || *port < 1 || *port > 65535)
    fail_usage("{}: expected http://HOST:PORT, such as http://127.0.0.1:8080", url);
}

HttpClient::~HttpClient() = default;

void HttpClient::cancel() {
  const int socket = impl_->socket;
  if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
}

HttpClient::Answer HttpClient::get(const std::string& path) {
  Answer answer;
  answer.status = ask(false, path, {}, [&](int, std::string_view piece) { answer.body += piece; });
  return answer;
}

int HttpClient::post(const std::string& path, const std::string& body,
                     const std::function<void(int status, std::string_view piece)>& take) {
  return ask(true, path, body, take);
}

int HttpClient::ask(bool posts, const std::string& path, const std::string& body,
                    const std::function<void(int status, std::string_view piece)>& take) {
  const bool is_address = host_.find(':') != std::string::npos;
  http::request<http::string_body> request(posts ? http::verb::post : http::verb::get, path_ + path, 11);
  request.set(http::field::host, (is_address ? "[" + host_ + "]" : host_) + ":" + port_);
  request.set(http::field::user_agent, "gpt.cpp");
  request.set(http::field::connection, "close");
  if (!key_.empty()) request.set(http::field::authorization, "Bearer " + key_);
  if (posts) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  try {
    asio::io_context context;
    tcp::socket socket(context);
    asio::connect(socket, tcp::resolver(context).resolve(host_, port_));
    impl_->socket = socket.native_handle();
    const std::shared_ptr<void> closes(nullptr, [this](void*) { impl_->socket = -1; });
    http::write(socket, request);
    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(std::numeric_limits<uint64_t>::max());
    http::read_header(socket, buffer, parser);
    const auto status = static_cast<int>(parser.get().result_int());
    char piece[8192];
    uint64_t bytes = 0;
    while (!parser.is_done()) {
      parser.get().body().data = piece;
      parser.get().body().size = sizeof(piece);
      beast::error_code error;
      http::read_some(socket, buffer, parser, error);
      if (error && error != http::error::need_buffer) throw beast::system_error(error);
      const size_t n = sizeof(piece) - parser.get().body().size;
      bytes += n;
      if (bytes > most_bytes_) fail("{}: the response is longer than {} bytes", url_, most_bytes_);
      if (n > 0) take(status, {piece, n});
    }
    return status;
  } catch (const beast::system_error& error) {
    fail("{}: {}", url_, error.code().message());
  }
}

void EventReader::push(std::string_view piece) {
  for (const char c : piece) {
    if (c != '\n') {
      line_ += c;
      continue;
    }
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(line_);
    line_.clear();
  }
  if (line_.size() + data_.size() > kLongest)
    fail("an event of the server is longer than {} bytes", kLongest);
}

// Ignores comments and all fields except data.
void EventReader::take_line(std::string_view line) {
  constexpr std::string_view kField = "data:";
  if (line.empty()) {
    if (any_) take_(data_);
    data_.clear();
    any_ = false;
  } else if (line.starts_with(kField)) {
    line.remove_prefix(kField.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (any_) data_ += '\n';
    data_ += line;
    any_ = true;
  }
}

}  // namespace gpt::serve

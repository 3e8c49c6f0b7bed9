#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt::serve {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// A request as it came: complete, and within the server's limits.
struct HttpRequest {
  std::string method;  // "GET", "POST", ...
  std::string target;  // as sent: "/v1/models?limit=3"
  HttpHeaders headers = {};
  std::string body = {};
  std::string peer = {};  // the client's address and port

  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  // The value of a header, whose name may be written in any case; null where there is none.
  const std::string* header(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};  // besides content type and length
};

// Where the answer to one request goes: one `send`, or `begin_stream`, any number of `write`s and `end`.
// Any thread may call it. Once the client is gone, calls do nothing. It must not outlive its server.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(HttpReply reply) = 0;
  virtual void begin_stream(HttpReply head) = 0;  // its body is the first piece
  virtual void write(std::string_view piece) = 0;
  virtual void end() = 0;
  // Calls `then` once if the client goes away before the answer is complete; at once if it has gone already.
  // On any thread; it must not block.
  virtual void on_closed(std::function<void()> then) = 0;
  // The largest body that `send` accepts.
  virtual size_t most_bytes() const { return std::numeric_limits<size_t>::max(); }
};

// "Not Found" of 404.
std::string_view status_text(int status);

std::string percent_decoded(std::string_view text);  // a name in a path: "%2F" stands for "/"

bool equal_ignoring_case(std::string_view a, std::string_view b);  // of ASCII letters

}  // namespace gpt::serve

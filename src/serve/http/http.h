#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt::serve {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// A complete HTTP request that is within the server's limits.
struct HttpRequest {
  std::string method;  // "GET", "POST", ...
  std::string target;  // as sent: "/v1/models?limit=3"
  HttpHeaders headers = {};
  std::string body = {};
  std::string peer = {};  // the client's address and port

  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  // Returns the value of a header, or null if there is none. Header names are case-insensitive.
  const std::string* header(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};  // in addition to content type and length
};

// Receives the response to one request: either one `send`, or `begin_stream`, any number of `write`s and
// `end`. All functions are thread-safe. After the client has disconnected, calls have no effect. A Responder
// must not outlive its server.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(HttpReply reply) = 0;
  virtual void begin_stream(HttpReply head) = 0;  // the body of `head` is the first piece
  virtual void write(std::string_view piece) = 0;
  virtual void end() = 0;
  // Calls `then` once if the client disconnects before the response is complete, or immediately if the client
  // has already disconnected. `then` may run on any thread and must not block.
  virtual void on_closed(std::function<void()> then) = 0;
  // Returns the largest body that `send` accepts.
  virtual size_t most_bytes() const { return std::numeric_limits<size_t>::max(); }
};

// Returns the reason phrase of a status, such as "Not Found" for 404.
std::string_view status_text(int status);

std::string percent_decoded(std::string_view text);  // decodes a name in a URL path: "%2F" becomes "/"

bool equal_ignoring_case(std::string_view a, std::string_view b);  // ignores the case of ASCII letters

}  // namespace gpt::serve

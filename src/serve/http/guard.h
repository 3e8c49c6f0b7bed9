#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "serve/http/http.h"

namespace gpt::serve {

// The API keys of the server. The time of a comparison does not depend on the key that the client sent.
class KeyRing {
 public:
  // If `keys` is empty, clients need no key.
  explicit KeyRing(std::vector<std::string> keys);
  // Reads a file with one key per line. Blank lines and lines that start with # are ignored. Throws Error if
  // the file has no keys, or if a key has fewer than 16 or more than 256 characters.
  static KeyRing read(const std::string& path);

  bool empty() const { return keys_.empty(); }
  // Returns the index of the key in a header "Authorization: Bearer KEY", or nullopt if the key is missing or
  // unknown.
  std::optional<size_t> find(const std::string* authorization) const;
  static constexpr size_t kMost = 256, kFewest = 16;  // number of characters in a key

 private:
  std::vector<std::string> keys_;
};

// Throws ApiError (421) unless the Host header names one of `hosts`, with any port. This check prevents DNS
// rebinding: if a browser is tricked into sending a page's requests to this server, the Host header names the
// site of the page.
void check_host(const HttpRequest& request, const std::vector<std::string>& hosts);

// Throws ApiError (415) unless the Content-Type is JSON. A browser does not send this type for a page of
// another site without a CORS preflight request.
void check_content_type(const HttpRequest& request);

// Limits the number of requests per client and minute with a token bucket. A client may send the requests of
// a minute all at once; the bucket then refills continuously. Not thread-safe.
class RateLimit {
 public:
  explicit RateLimit(int64_t per_minute) : per_minute_(static_cast<double>(per_minute)) {}  // 0: unlimited

  // Takes one request from a client's bucket. Returns 0, or the seconds until the next request is allowed.
  double take(const std::string& client, Clock::time_point now);
  static constexpr size_t kMostClients = size_t{1} << 16;  // maximum number of remembered clients

 private:
  struct Bucket {
    double requests;
    Clock::time_point at;
  };
  double requests(const Bucket& bucket, Clock::time_point now) const;
  void forget(Clock::time_point now);

  const double per_minute_;
  std::unordered_map<std::string, Bucket> clients_;
};

}  // namespace gpt::serve

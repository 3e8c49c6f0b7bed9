#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

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

}  // namespace gpt::serve

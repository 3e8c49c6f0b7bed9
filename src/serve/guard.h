#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace gpt::serve {

// The keys that clients must have one of. Comparing takes as long for a wrong key as for a right one,
// wherever they differ.
class KeyRing {
 public:
  // No keys: nobody needs one.
  explicit KeyRing(std::vector<std::string> keys);
  // One key a line; blank lines and those that begin with # do not count. Throws Error for a file without
  // keys, or with one that is shorter than 16 characters, or longer than 256.
  static KeyRing read(const std::string& path);

  bool empty() const { return keys_.empty(); }
  // Which key a header "Authorization: Bearer KEY" has; nothing for none of them.
  std::optional<size_t> find(const std::string* authorization) const;
  static constexpr size_t kMost = 256, kFewest = 16;  // characters of a key

 private:
  std::vector<std::string> keys_;
};

// Throws ApiError (421) unless a request's Host names one of `hosts`, with any port. A page of another site
// that a browser was made to take for this server names that site (DNS rebinding).
void check_host(const HttpRequest& request, const std::vector<std::string>& hosts);

// Throws ApiError (415) unless the body is declared as JSON. A page of another site cannot say so unasked.
void check_content_type(const HttpRequest& request);

}  // namespace gpt::serve

#include "serve/router.h"

#include "base/utf8.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

bool matches(const Endpoint& endpoint, std::string_view path) {
  const std::string_view pattern = endpoint.path;
  if (!pattern.ends_with("/*")) return pattern == path;
  const std::string_view prefix = pattern.substr(0, pattern.size() - 1);
  return path.starts_with(prefix) && path.size() > prefix.size();
}

}  // namespace

const Endpoint& Router::find(std::string_view method, std::string_view path) const {
  if (method == "HEAD") method = "GET";
  for (const Endpoint& endpoint : endpoints_) {
    if (endpoint.method == method && matches(endpoint, path)) return endpoint;
  }
  const std::string shown = printable_text(path, 64), methods = allowed(path);
  if (methods.empty())
    throw ApiError(404, fmt::format("{}: no such endpoint; GET /openapi.json lists all endpoints", shown));
  throw ApiError(405, fmt::format("{} accepts {}, found {}", shown, methods, printable_text(method, 16)));
}

std::string Router::allowed(std::string_view path) const {
  std::string methods;
  for (const Endpoint& endpoint : endpoints_) {
    if (matches(endpoint, path)) methods += (methods.empty() ? "" : ", ") + endpoint.method;
  }
  return methods;
}

}  // namespace gpt::serve

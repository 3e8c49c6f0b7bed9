#include "serve/http/guard.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "serve/api_error.h"

namespace gpt::serve {

namespace {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 20;

// Compares two texts of at most kMost bytes in constant time. Always reads kMost bytes of both.
bool same_key(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size() ? 1 : 0;
  for (size_t i = 0; i < KeyRing::kMost; ++i) {
    const unsigned x = i < a.size() ? static_cast<unsigned char>(a[i]) : 0u;
    const unsigned y = i < b.size() ? static_cast<unsigned char>(b[i]) : 0u;
    difference |= x ^ y;
  }
  return difference == 0;
}

// Returns the host without its port: "localhost" for "localhost:8080", "[::1]" for "[::1]:8080".
std::string_view host_of(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) return host;
  return host.substr(0, colon);
}

}  // namespace

KeyRing::KeyRing(std::vector<std::string> keys) : keys_(std::move(keys)) {}

KeyRing KeyRing::read(const std::string& path) {
  std::vector<std::string> keys;
  const std::string text = read_file(path, kMostFileBytes);
  for (std::string_view line : lines_of(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.size() < kFewest || line.size() > kMost)
      fail("{}: expected keys of {} to {} characters, one per line, found a key of {}", path, kFewest, kMost,
           line.size());
    keys.emplace_back(line);
  }
  if (keys.empty()) fail("{}: expected at least one key, one per line, found none", path);
  return KeyRing(std::move(keys));
}

std::optional<size_t> KeyRing::find(const std::string* authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization == nullptr || authorization->size() < kScheme.size() ||
      !equal_ignoring_case(std::string_view(*authorization).substr(0, kScheme.size()), kScheme))
    return std::nullopt;
  const std::string_view key = std::string_view(*authorization).substr(kScheme.size());
  std::optional<size_t> found;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (same_key(key, keys_[i])) found = i;
  }
  return found;
}

void check_host(const HttpRequest& request, const std::vector<std::string>& hosts) {
  const std::string* host = request.header("Host");
  const std::string_view found = host == nullptr ? "" : host_of(*host);
  if (std::ranges::any_of(hosts, [&](const std::string& h) { return equal_ignoring_case(h, found); })) return;
  throw ApiError(
      421,
      fmt::format(
          "the Host \"{}\" is not allowed; start the server with gpt serve --allow-host NAME to allow it",
          printable_text(found, 64)));
}

void check_content_type(const HttpRequest& request) {
  const std::string* type = request.header("Content-Type");
  std::string_view found = type == nullptr ? "" : std::string_view(*type).substr(0, type->find(';'));
  while (found.ends_with(' '))
    found.remove_suffix(1);
  if (equal_ignoring_case(found, "application/json")) return;
  throw ApiError(
      415, fmt::format("expected Content-Type: application/json, found \"{}\"", printable_text(found, 64)));
}

double RateLimit::take(const std::string& client, Clock::time_point now) {
  constexpr double kMinute = 60;
  if (per_minute_ == 0) return 0;
  if (clients_.size() >= kMostClients) forget(now);
  Bucket& bucket = clients_.try_emplace(client, Bucket{per_minute_, now}).first->second;
  bucket = {requests(bucket, now), now};
  if (bucket.requests < 1) return (1 - bucket.requests) * kMinute / per_minute_;
  --bucket.requests;
  return 0;
}

double RateLimit::requests(const Bucket& bucket, Clock::time_point now) const {
  const double minutes = std::chrono::duration<double, std::ratio<60>>(now - bucket.at).count();
  return std::min(per_minute_, bucket.requests + per_minute_ * minutes);
}

// Forgets clients with a full bucket, because they are equivalent to new clients. If there are none, forgets
// all clients.
void RateLimit::forget(Clock::time_point now) {
  std::erase_if(clients_, [&](const auto& c) { return requests(c.second, now) >= per_minute_; });
  if (clients_.size() >= kMostClients) clients_.clear();
}

}  // namespace gpt::serve

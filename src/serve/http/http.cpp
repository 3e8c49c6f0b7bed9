#include "serve/http/http.h"

#include <algorithm>

namespace gpt::serve {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}

constexpr std::pair<int, std::string_view> kStatuses[] = {{200, "OK"},
                                                          {302, "Found"},
                                                          {400, "Bad Request"},
                                                          {401, "Unauthorized"},
                                                          {403, "Forbidden"},
                                                          {404, "Not Found"},
                                                          {405, "Method Not Allowed"},
                                                          {408, "Request Timeout"},
                                                          {409, "Conflict"},
                                                          {413, "Content Too Large"},
                                                          {415, "Unsupported Media Type"},
                                                          {417, "Expectation Failed"},
                                                          {421, "Misdirected Request"},
                                                          {422, "Unprocessable Content"},
                                                          {429, "Too Many Requests"},
                                                          {431, "Request Header Fields Too Large"},
                                                          {500, "Internal Server Error"},
                                                          {501, "Not Implemented"},
                                                          {503, "Service Unavailable"},
                                                          {504, "Gateway Timeout"}};

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    out += escaped ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    if (escaped) i += 2;
  }
  return out;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* HttpRequest::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [&](const auto& h) { return equal_ignoring_case(h.first, name); });
  return found == headers.end() ? nullptr : &found->second;
}

std::string_view status_text(int status) {
  const auto* found = std::ranges::find(kStatuses, status, [](const auto& s) { return s.first; });
  return found == std::end(kStatuses) ? "Unknown" : found->second;
}

}  // namespace gpt::serve

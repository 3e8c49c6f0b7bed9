#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "serve/http/http.h"

namespace gpt::serve {

// An error response in the format of OpenAI's API.
class ApiError : public std::runtime_error {
 public:
  // `param` is the invalid field of the request. `code` is a machine-readable error code. Both may be empty.
  // `retry_seconds` is sent in the Retry-After header with status 429 and 503.
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {},
           int64_t retry_seconds = 1)
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)),
        retry_seconds_(retry_seconds) {}

  int status() const { return status_; }
  // Returns {"error":{"message","type","param","code"}} in one line. Invalid UTF-8 is replaced.
  std::string body() const;
  HttpReply reply() const;  // adds a Retry-After header for status 429 and 503

 private:
  int status_;
  std::string param_, code_;
  int64_t retry_seconds_;
};

// Throws ApiError (400) that names a field of the request.
template <class... A>
[[noreturn]] void fail_field(const std::string& param, fmt::format_string<A...> format, A&&... args) {
  throw ApiError(400, param + ": " + fmt::format(format, std::forward<A>(args)...), param);
}

// Converts the exception that is being handled to an ApiError. A gpt::Error is a client error (400, naming
// `param`), except for the codes out_of_memory (503) and internal (500). Other exceptions are converted by
// failure_of.
ApiError current_error(const std::string& param = {});
// Converts an exception from the processing of a valid request to an ApiError: 503 for std::bad_alloc,
// otherwise 500. An ApiError is returned unchanged.
ApiError failure_of(const std::exception& error);

}  // namespace gpt::serve

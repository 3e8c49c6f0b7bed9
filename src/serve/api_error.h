#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "serve/http.h"

namespace gpt::serve {

// What a client is told when its request cannot be answered, in the form that OpenAI's clients read.
class ApiError : public std::runtime_error {
 public:
  // param: the field of the request that is at fault; code: a word for programs. Both may be empty.
  // retry_seconds: after which it is worth trying again, with 429 and 503.
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {},
           int64_t retry_seconds = 1)
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)),
        retry_seconds_(retry_seconds) {}

  int status() const { return status_; }
  // {"error":{"message","type","param","code"}}, one line. Invalid UTF-8 is replaced.
  std::string body() const;
  HttpReply reply() const;  // with Retry-After where it is worth trying again

 private:
  int status_;
  std::string param_, code_;
  int64_t retry_seconds_;
};

// A 400 that names a field of the request.
template <class... A>
[[noreturn]] void fail_field(const std::string& param, fmt::format_string<A...> format, A&&... args) {
  throw ApiError(400, param + ": " + fmt::format(format, std::forward<A>(args)...), param);
}

// What is being handled, as a client is told of it: an Error of ours is its own fault (400, naming `param`),
// everything else is the server's.
ApiError current_error(const std::string& param = {});
// What went wrong with a request that was found to be right.
ApiError failure_of(const std::exception& error);

}  // namespace gpt::serve

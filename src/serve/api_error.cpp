#include "serve/api_error.h"

#include <new>

#include "base/error.h"
#include "serve/openai/responses.h"

namespace gpt::serve {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::optional<std::string> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

std::string ApiError::body() const {
  return json_of(ErrorResponse{{.message = what(),
                                .type = type_of(status_),
                                .param = text_or_null(param_),
                                .code = text_or_null(code_)}});
}

HttpReply ApiError::reply() const {
  HttpReply reply{.status = status_, .body = body()};
  if (status_ == 429 || status_ == 503)
    reply.headers.emplace_back("Retry-After", std::to_string(retry_seconds_));
  if (status_ == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

ApiError failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) return *known;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return ApiError(503, "the server does not have enough memory", {}, "overloaded");
  return ApiError(500, std::string("internal error: ") + error.what(), {}, "internal_error");
}

// Maps an error to a status by its code. Invalid fields and invalid names in a request are client errors.
ApiError api_error_of(const Error& error, const std::string& param) {
  const bool names_field = error.code() == ErrorCode::invalid_argument && !error.object().empty();
  if (error.code() == ErrorCode::out_of_memory) return ApiError(503, error.what(), {}, "overloaded");
  if (error.code() == ErrorCode::internal) return ApiError(500, error.what(), {}, "internal_error");
  return ApiError(400, error.what(), names_field ? error.object() : param);
}

ApiError current_error(const std::string& param) {
  try {
    throw;
  } catch (const Error& error) {
    return api_error_of(error, param);
  } catch (const std::exception& error) {
    return failure_of(error);
  }
}

}  // namespace gpt::serve

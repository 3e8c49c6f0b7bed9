#include "base/problems.h"

#include <string>

namespace gpt {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.what();
  }
}

std::string messages_of(const std::vector<std::exception_ptr>& errors) {
  std::string all;
  for (const std::exception_ptr& error : errors)
    all += (all.empty() ? "" : "\n") + message_of(error);
  return all;
}

}  // namespace

Errors::Errors(std::vector<std::exception_ptr> errors)
    : Error(messages_of(errors), ErrorCode::invalid_argument), errors_(std::move(errors)) {}

void Problems::add(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Errors& several) {
    errors_.insert(errors_.end(), several.errors().begin(), several.errors().end());
  } catch (const Error&) {
    errors_.push_back(error);
  }
}

void Problems::add_usage(const Problems& other) {
  for (const std::exception_ptr& error : other.errors_) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::invalid_argument) errors_.push_back(error);
    }
  }
}

void Problems::report() const {
  if (errors_.size() == 1) std::rethrow_exception(errors_.front());
  if (!errors_.empty()) throw Errors(errors_);
}

}  // namespace gpt

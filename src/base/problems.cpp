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

UsageErrors::UsageErrors(std::vector<std::exception_ptr> errors)
    : UsageError(messages_of(errors)), errors_(std::move(errors)) {}

void Problems::add(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UsageErrors& several) {
    errors_.insert(errors_.end(), several.errors().begin(), several.errors().end());
  } catch (const Error&) {
    errors_.push_back(error);
  }
}

void Problems::add_usage(const Problems& other) {
  for (const std::exception_ptr& error : other.errors_) {
    try {
      std::rethrow_exception(error);
    } catch (const UsageError&) {
      errors_.push_back(error);
    } catch (const Error&) {
    }
  }
}

void Problems::report() const {
  if (errors_.size() == 1) std::rethrow_exception(errors_.front());
  if (!errors_.empty()) throw UsageErrors(errors_);
}

}  // namespace gpt

#pragma once

#include <exception>
#include <utility>
#include <vector>

#include "base/error.h"

namespace gpt {

// Several wrong parameters, found together: invalid_argument. what() is their messages, one per line.
class Errors : public Error {
 public:
  explicit Errors(std::vector<std::exception_ptr> errors);
  const std::vector<std::exception_ptr>& errors() const { return errors_; }

 private:
  std::vector<std::exception_ptr> errors_;
};

// Collects the errors of independent checks, so that a user reads all of them after one attempt.
class Problems {
 public:
  // Runs a check and keeps the Error that it throws, or each of its Errors. Returns false if it threw one.
  template <class Check>
  bool collect(Check&& check) {
    try {
      check();
      return true;
    } catch (const Error&) {
      add(std::current_exception());
      return false;
    }
  }
  // Keeps each error of code invalid_argument that a check throws, and ignores errors of other codes.
  template <class Check>
  void collect_usage(Check&& check) {
    Problems all;
    all.collect(std::forward<Check>(check));
    add_usage(all);
  }
  bool empty() const { return errors_.empty(); }
  // Throws the error that was collected, or Errors if there are several; returns if there is none.
  void report() const;

 private:
  void add(const std::exception_ptr& error);
  void add_usage(const Problems& other);

  std::vector<std::exception_ptr> errors_;
};

}  // namespace gpt

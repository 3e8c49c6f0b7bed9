#pragma once

#include <exception>
#include <utility>
#include <vector>

#include "base/error.h"

namespace gpt {

// Several invalid parameters, reported as one invalid_argument error. what() contains their messages, one per
// line.
class Errors : public Error {
 public:
  explicit Errors(std::vector<std::exception_ptr> errors);
  const std::vector<std::exception_ptr>& errors() const { return errors_; }

 private:
  std::vector<std::exception_ptr> errors_;
};

// Collects the errors of independent checks, so that the user sees all of them at once.
class Problems {
 public:
  // Runs a check. If the check throws an Error or Errors, stores it and returns false.
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
  // Runs a check. If the check throws errors with the code invalid_argument, stores them. Ignores errors with
  // other codes.
  template <class Check>
  void collect_usage(Check&& check) {
    Problems all;
    all.collect(std::forward<Check>(check));
    add_usage(all);
  }
  bool empty() const { return errors_.empty(); }
  // Throws the collected error, or Errors if there are several. Returns if there are none.
  void report() const;

 private:
  void add(const std::exception_ptr& error);
  void add_usage(const Problems& other);

  std::vector<std::exception_ptr> errors_;
};

}  // namespace gpt

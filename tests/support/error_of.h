#pragma once

#include <string>

#include "base/error.h"

namespace gpt::test {

// Runs the action and returns the message of the gpt::Error that it throws, or "no error" if it throws none.
template <class F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gpt::test

#pragma once

#include <string>

#include "base/error.h"

namespace gpt::test {

// The message of the Error that an action throws; "no error" when it throws none.
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

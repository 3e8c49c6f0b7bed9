#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpt::test {

// Returns a path in the folder of reference data that is too large for the repository. The folder is
// GPT_REFERENCE from the environment or, if that is not set, shared/reference next to the source tree.
inline std::string reference_path(const std::string& name) {
  const char* given = std::getenv("GPT_REFERENCE");
  return (given != nullptr ? std::string(given) : GPT_SOURCE_DIR "/../shared/reference") + "/" + name;
}

// Skips the test if a required file or folder is missing. The skip message contains the path.
#define GPT_SKIP_WITHOUT(path)        \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << (path) << " is missing (GPT_REFERENCE names the folder of the larger reference data)"

}  // namespace gpt::test

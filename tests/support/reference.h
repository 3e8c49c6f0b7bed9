#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpt::test {

// A path in the folder of reference data that is too large for the repository: GPT_REFERENCE, else
// shared/reference next to the sources.
inline std::string reference_path(const std::string& name) {
  const char* given = std::getenv("GPT_REFERENCE");
  return (given != nullptr ? std::string(given) : GPT_SOURCE_DIR "/../shared/reference") + "/" + name;
}

// Skips the test, naming the path, if a file or folder that it needs is missing.
#define GPT_SKIP_WITHOUT(path)        \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << (path) << " is missing (GPT_REFERENCE names the folder of the larger reference data)"

}  // namespace gpt::test

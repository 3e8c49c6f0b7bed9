#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace gpt {

// A new empty folder that is removed with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(testing::TempDir() + "gpt_report_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace gpt

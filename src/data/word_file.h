#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace gpt {

// Reads a file of word counts from front to back. word_tasks.h describes the format (write_word_counts).
class WordFile {
 public:
  // Throws Error naming the file unless its checksum and its first line are valid.
  explicit WordFile(const std::string& path);
  // Reads from bytes in memory, which must outlive this object.
  WordFile(std::span<const std::byte> bytes, const std::string& name);

  ~WordFile();

  const nlohmann::json& inputs() const { return *inputs_; }
  const std::string& task() const { return task_; }  // "I/N"; "" if the file does not name its task
  int64_t text_bytes() const { return text_bytes_; }

  // Reads the next word and its count. Returns false at the end. Throws Error if the remaining bytes are
  // damaged.
  bool next(std::string_view& word, uint64_t& count);

 private:
  void read_head(std::span<const std::byte> bytes);
  template <class T>
  T number();
  [[noreturn]] void fail_damaged() const;

  MappedFile file_;
  std::string name_;
  std::unique_ptr<const nlohmann::json> inputs_;
  std::string task_;
  int64_t text_bytes_ = 0;
  std::string_view rest_;
  uint64_t bytes_ = 0;  // total bytes of the words so far, each word multiplied by its count
};

}  // namespace gpt

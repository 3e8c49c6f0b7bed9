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

// A file of counted words as write_word_counts makes it (word_tasks.h), read front to back.
class WordFile {
 public:
  // Throws Error naming the file unless its checksum and its first line are right.
  explicit WordFile(const std::string& path);
  // The same for bytes that outlive it.
  WordFile(std::span<const std::byte> bytes, const std::string& name);

  ~WordFile();

  const nlohmann::json& inputs() const { return *inputs_; }
  const std::string& task() const { return task_; }  // "I/N"; "" where the file does not say
  int64_t text_bytes() const { return text_bytes_; }

  // The next word; false at the end. Throws Error where what is left is no words.
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
  uint64_t bytes_ = 0;  // of the words so far, each as often as it occurred
};

}  // namespace gpt

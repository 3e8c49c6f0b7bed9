#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace gpt {

// The YAML file of a task or group, merged with all its includes. Stores the file and line of each key.
class TaskFile {
 public:
  // Reads the file and its `include`s as lm-evaluation-harness does: keys of the file override included keys.
  // Throws Error naming file and line, also for a file that includes itself.
  explicit TaskFile(const std::string& path);
  ~TaskFile();
  TaskFile(const TaskFile& other);
  TaskFile& operator=(const TaskFile&) = delete;

  const std::string& path() const { return path_; }
  const nlohmann::ordered_json& keys() const { return *keys_; }
  // Keys with a null value count as missing.
  bool has(const std::string& key) const;
  const nlohmann::ordered_json* find(const std::string& key) const;

  // Return the value of a key, or nothing if the key is missing. Throw Error naming file and line if the
  // value has a different type.
  std::optional<std::string> text(const std::string& key) const;
  std::optional<int64_t> integer(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;  // a single text becomes a list of one text

  // Replaces the values of keys. Used for groups that override keys of their tasks.
  void override_with(const nlohmann::ordered_json& keys);

  // Returns "FILE, line N: KEY" for error messages.
  std::string place(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const std::string& found) const;

 private:
  void read(const std::string& path, std::vector<std::string>& seen);

  std::string path_;
  std::unique_ptr<nlohmann::ordered_json> keys_;
  std::map<std::string, std::string> places_;
};

// Returns a list unchanged, and any other value as a list of one element.
nlohmann::ordered_json as_list(const nlohmann::ordered_json& value);

// Returns a value as short text on one line for error messages.
std::string shown_value(const nlohmann::ordered_json& value);

}  // namespace gpt

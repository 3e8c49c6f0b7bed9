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

// A task's or group's YAML with everything that it includes, each key with the place where it stands.
class TaskFile {
 public:
  // Reads the file and its `include`s as lm-evaluation-harness does: included keys first, those of the file
  // win. Throws Error naming file and line, for a file that includes itself too.
  explicit TaskFile(const std::string& path);
  ~TaskFile();
  TaskFile(const TaskFile& other);
  TaskFile& operator=(const TaskFile&) = delete;

  const std::string& path() const { return path_; }
  const nlohmann::ordered_json& keys() const { return *keys_; }
  // Null values count as missing.
  bool has(const std::string& key) const;
  const nlohmann::ordered_json* find(const std::string& key) const;

  // The value of a key; nothing where it is missing. Throws Error, naming the place, for another kind.
  std::optional<std::string> text(const std::string& key) const;
  std::optional<int64_t> integer(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;  // one text is a list of one

  // Replaces keys, as a group does with those of its tasks.
  void override_with(const nlohmann::ordered_json& keys);

  // "FILE, line N: KEY", for messages.
  std::string place(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const std::string& found) const;

 private:
  void read(const std::string& path, std::vector<std::string>& seen);

  std::string path_;
  std::unique_ptr<nlohmann::ordered_json> keys_;
  std::map<std::string, std::string> places_;
};

// A list as it is, anything else as a list of one.
nlohmann::ordered_json as_list(const nlohmann::ordered_json& value);

// A value in a message: short, on one line.
std::string shown_value(const nlohmann::ordered_json& value);

}  // namespace gpt

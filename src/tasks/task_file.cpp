#include "tasks/task_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/utf8.h"
#include "tasks/yaml.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxIncludes = 64, kMaxKeys = 1024;
constexpr size_t kShown = 60;

}  // namespace

// With some compilers, ordered_json{value} is a copy of the value instead of a list that contains it.
ordered_json as_list(const ordered_json& value) {
  if (value.is_array()) return value;
  ordered_json list = ordered_json::array();
  list.push_back(value);
  return list;
}

std::string shown_value(const ordered_json& value) {
  const double number = value.is_number_float() ? value.get<double>() : 0;
  if (std::isnan(number)) return ".nan";
  if (std::isinf(number)) return number < 0 ? "-.inf" : ".inf";
  return printable_text(value.dump(-1, ' ', false, ordered_json::error_handler_t::replace), kShown);
}

TaskFile::TaskFile(const std::string& path) : path_(path), keys_(std::make_unique<ordered_json>()) {
  *keys_ = ordered_json::object();
  std::vector<std::string> seen;
  read(path, seen);
}

TaskFile::~TaskFile() = default;

TaskFile::TaskFile(const TaskFile& other)
    : path_(other.path_), keys_(std::make_unique<ordered_json>(*other.keys_)), places_(other.places_) {}

void TaskFile::read(const std::string& path, std::vector<std::string>& seen) {
  const std::string resolved = resolved_path(path);
  if (std::find(seen.begin(), seen.end(), resolved) != seen.end())
    fail("{}: expected each file to be included once, found it twice; check for circular includes", path);
  if (seen.size() >= kMaxIncludes) fail("{}: expected at most {} included files", path, kMaxIncludes);
  seen.push_back(resolved);
  std::map<std::string, int64_t> lines;
  ordered_json own = parse_yaml(read_file(path, YamlLimits().max_bytes), path, &lines);
  if (!own.is_object()) fail("{}: expected a map with the keys of a task, found {}", path, shown_value(own));
  if (own.size() > kMaxKeys) fail("{}: expected at most {} keys, found {}", path, kMaxKeys, own.size());
  if (own.contains("include")) {
    for (const ordered_json& name : as_list(own["include"])) {
      if (!name.is_string())
        fail("{}, line {}: include: expected file names, found {}", path, lines["include"],
             shown_value(name));
      const std::filesystem::path folder = std::filesystem::path(path).parent_path();
      read((folder / name.get<std::string>()).string(), seen);
    }
    keys_->erase("task_list");  // an included task_list applies only to the included file
    own.erase("include");
  }
  for (const auto& [key, value] : own.items()) {
    (*keys_)[key] = value;
    places_[key] = fmt::format("{}, line {}", path, lines[key]);
  }
}

bool TaskFile::has(const std::string& key) const {
  return find(key) != nullptr;
}

const ordered_json* TaskFile::find(const std::string& key) const {
  const auto found = keys_->find(key);
  return found == keys_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> TaskFile::text(const std::string& key) const {
  const ordered_json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string", shown_value(*value));
  return value->get<std::string>();
}

std::optional<int64_t> TaskFile::integer(const std::string& key) const {
  const ordered_json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) refuse(key, "an integer", shown_value(*value));
  return value->get<int64_t>();
}

std::vector<std::string> TaskFile::texts(const std::string& key) const {
  const ordered_json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::string> out;
  for (const ordered_json& element : as_list(*value)) {
    if (!element.is_string()) refuse(key, "a string or a list of strings", shown_value(*value));
    out.push_back(element.get<std::string>());
  }
  return out;
}

void TaskFile::override_with(const ordered_json& keys) {
  for (const auto& [key, value] : keys.items()) {
    (*keys_)[key] = value;
    places_[key] = path_ + ", overridden by the group";
  }
}

std::string TaskFile::place(const std::string& key) const {
  const auto known = places_.find(key);
  return (known == places_.end() ? path_ : known->second) + ": " + key;
}

void TaskFile::refuse(const std::string& key, const std::string& expected, const std::string& found) const {
  fail("{}: expected {}, found {}", place(key), expected, found);
}

}  // namespace gpt

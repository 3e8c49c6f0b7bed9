#include "tasks/task_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/ranges.h"
#include "base/suggest.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxFiles = 4096;
constexpr int kMaxDepth = 16;
constexpr size_t kMaxTasks = 4096;

const std::vector<std::string> kGroupMetricKeys = {"metric", "aggregation", "weight_by_size", "filter_list"};
const std::vector<std::string> kGroupKeys = {"group", "group_alias", "task", "aggregate_metric_list",
                                             "metadata"};

// An index of the tasks, groups and tags in a folder by name. A file that cannot be read is skipped. If a
// name is not found later, the error of the first skipped file is reported.
class Index {
 public:
  explicit Index(const std::string& folder) { scan(folder, 0); }

  const std::string* file(const std::string& name) const {
    const auto found = files_.find(name);
    return found == files_.end() ? nullptr : &found->second;
  }
  const std::vector<std::string>* tag(const std::string& name) const {
    const auto found = tags_.find(name);
    return found == tags_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> names() const {
    return transformed(files_, [](const auto& entry) { return entry.first; });
  }
  const std::string& first_problem() const { return first_problem_; }

 private:
  void scan(const std::string& folder, int depth) {
    if (depth > kMaxDepth) fail("{}: expected at most {} levels of nested folders", folder, kMaxDepth);
    for (const FolderEntry& entry : list_folder(folder.empty() ? "." : folder)) {
      const std::string path = (std::filesystem::path(folder) / entry.name).string();
      if (entry.kind == PathKind::folder && !entry.link) scan(path, depth + 1);
      if (entry.kind == PathKind::file && entry.name.ends_with(".yaml")) add(path);
    }
  }

  void add(const std::string& path) {
    if (++read_ > kMaxFiles) fail("{}: expected at most {} .yaml files in a group's folder", path, kMaxFiles);
    try {
      const TaskFile file(path);
      const bool group = file.has("group");
      const auto name = file.text(group ? "group" : "task");
      if (!name || !files_.emplace(*name, path).second || group) return;
      for (const std::string& tag : file.texts("tag"))
        tags_[tag].push_back(*name);
    } catch (const Error& e) {
      if (first_problem_.empty()) first_problem_ = e.what();
    }
  }

  std::map<std::string, std::string> files_;
  std::map<std::string, std::vector<std::string>> tags_;
  std::string first_problem_;
  size_t read_ = 0;
};

class Reader {
 public:
  TaskSet take() { return std::move(set_); }

  void add_path(const std::string& path) {
    const TaskFile file(path);
    if (file.has("group")) {
      const std::string folder = std::filesystem::path(path).parent_path().string();
      const Index index(folder);
      add_group(file, *file.text("group"), file.keys(), ordered_json::object(), index, 0);
    } else {
      add_task(file);
    }
  }

 private:
  size_t add_task(const TaskFile& file) {
    TaskConfig config = read_task_config(file);
    for (size_t i = 0; i < set_.tasks.size(); ++i) {
      if (set_.tasks[i].name == config.name) return i;
    }
    if (set_.tasks.size() == kMaxTasks) fail("{}: expected at most {} tasks", file.path(), kMaxTasks);
    set_.tasks.push_back(std::move(config));
    return set_.tasks.size() - 1;
  }

  // Adds a group and returns its tasks. `keys` are the keys of the group, which may be nested in another
  // group.
  std::vector<size_t> add_group(const TaskFile& file, const std::string& name, const ordered_json& keys,
                                const ordered_json& outer, const Index& index, int depth) {
    if (depth > kMaxDepth) fail("{}: the group {} contains itself", file.path(), name);
    const size_t at = set_.groups.size();
    set_.groups.push_back({.name = name, .alias = name, .depth = depth});
    if (const auto alias = keys.find("group_alias"); alias != keys.end() && alias->is_string())
      set_.groups[at].alias = alias->get<std::string>();
    set_.groups[at].metrics = read_group_metrics(file, keys);
    ordered_json overrides = ordered_json::object();
    for (const auto& [key, value] : keys.items()) {
      if (std::find(kGroupKeys.begin(), kGroupKeys.end(), key) == kGroupKeys.end() && key != "tag")
        overrides[key] = value;
    }
    overrides.update(outer);
    std::vector<size_t> tasks;
    const auto members = keys.find("task");
    if (members == keys.end()) fail("{}: the group {} lists no tasks", file.path(), name);
    for (const ordered_json& member : as_list(*members)) {
      for (const size_t task : add_member(file, name, member, overrides, index, depth)) {
        if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) tasks.push_back(task);
      }
    }
    set_.groups[at].tasks = tasks;
    return tasks;
  }

  std::vector<size_t> add_member(const TaskFile& file, const std::string& group, const ordered_json& member,
                                 const ordered_json& outer, const Index& index, int depth) {
    if (member.is_string()) return add_named(file, member.get<std::string>(), outer, index, depth);
    if (!member.is_object()) file.refuse("task", "names of tasks or groups, or maps", shown_value(member));
    ordered_json own = member;
    if (member.contains("group") && member["group"].is_string()) {
      const std::string name = member["group"].get<std::string>();
      if (index.file(name) == nullptr)
        return add_group(file, fmt::format("{}::{}", group, name), member, outer, index, depth + 1);
      own.erase("group");
      return add_named(file, name, merged(outer, own), index, depth);
    }
    if (!member.contains("task") || !member["task"].is_string())
      file.refuse("task", "maps with the key \"task\" or \"group\"", shown_value(member));
    const std::string name = member["task"].get<std::string>();
    if (index.file(name) != nullptr || index.tag(name) != nullptr) {
      own.erase("task");
      return add_named(file, name, merged(outer, own), index, depth);
    }
    return {add_inline(file, fmt::format("{}::{}", group, name), merged(outer, own))};
  }

  static ordered_json merged(ordered_json outer, const ordered_json& own) {
    outer.update(own);
    return outer;
  }

  // Adds a task that is written inside its group.
  size_t add_inline(const TaskFile& group, const std::string& name, const ordered_json& keys) {
    TaskFile file(group);
    ordered_json own = keys;
    own["task"] = name;
    for (const std::string& key : kGroupKeys) {
      if (key != "task" && key != "metadata") own[key] = nullptr;
    }
    file.override_with(own);
    return add_task(file);
  }

  std::vector<size_t> add_named(const TaskFile& from, const std::string& name, const ordered_json& overrides,
                                const Index& index, int depth) {
    if (const std::string* path = index.file(name)) {
      TaskFile file(*path);
      if (file.has("group")) return add_group(file, name, file.keys(), overrides, index, depth + 1);
      file.override_with(overrides);
      return {add_task(file)};
    }
    if (const std::vector<std::string>* tagged = index.tag(name)) {
      std::vector<std::string> names = *tagged;
      std::sort(names.begin(), names.end());
      std::vector<size_t> tasks;
      for (const std::string& task : names) {
        for (const size_t added : add_named(from, task, overrides, index, depth))
          tasks.push_back(added);
      }
      return tasks;
    }
    fail("{}: the task or tag {} was not found in the .yaml files of the folder{}{}", from.place("task"),
         name, did_you_mean(name, index.names()),
         index.first_problem().empty() ? "" : "; one file could not be read: " + index.first_problem());
  }

  static std::vector<GroupMetric> read_group_metrics(const TaskFile& file, const ordered_json& keys) {
    const auto found = keys.find("aggregate_metric_list");
    if (found == keys.end() || found->is_null()) return {};
    const char* const key = "aggregate_metric_list";
    return transformed(as_list(*found), [&](const ordered_json& entry) {
      if (!entry.is_object() || !entry.contains("metric") || !entry["metric"].is_string())
        file.refuse(key, "maps with the key metric", shown_value(entry));
      for (const auto& [name, value] : entry.items()) {
        if (std::ranges::find(kGroupMetricKeys, name) == kGroupMetricKeys.end())
          file.refuse(key, fmt::format("{}", fmt::join(kGroupMetricKeys, ", ")), name);
      }
      GroupMetric metric{.metric = entry["metric"].get<std::string>(), .filters = {}};
      if (entry.contains("aggregation") && entry["aggregation"] != "mean")
        file.refuse(key, "the aggregation mean", shown_value(entry["aggregation"]));
      if (entry.contains("weight_by_size")) {
        if (!entry["weight_by_size"].is_boolean())
          file.refuse(key, "weight_by_size to be true or false", shown_value(entry["weight_by_size"]));
        metric.weight_by_size = entry["weight_by_size"].get<bool>();
      }
      if (entry.contains("filter_list") && !entry["filter_list"].is_null()) {
        const ordered_json& names = entry["filter_list"];
        for (const ordered_json& name : as_list(names)) {
          if (!name.is_string()) file.refuse(key, "names in filter_list", shown_value(names));
          metric.filters.push_back(name.get<std::string>());
        }
      }
      return metric;
    });
  }

  TaskSet set_;
};

}  // namespace

TaskSet read_task_set(const std::vector<std::string>& paths) {
  Reader reader;
  for (const std::string& path : paths)
    reader.add_path(path);
  return reader.take();
}

}  // namespace gpt

#include "base/process_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gpt {
namespace {

// Returns the bytes from a line such as "VmHWM:     1234 kB", or 0 if the file has no such line.
int64_t bytes_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  int64_t kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return kib * 1024;
  }
  return 0;
}

int64_t number_in(const std::string& path, int64_t otherwise) {
  int64_t number = 0;
  return std::ifstream(path) >> number ? number : otherwise;
}

// A control group hierarchy that limits memory: its root folder, the group of this process, and the names of
// its usage and limit files. Above memory.high, the system throttles the process.
struct MemoryGroups {
  std::string root, group, usage;
  std::vector<std::string> limits;
};

// Parses lines such as "0::/system.slice/gpt.service" (version 2) and "4:cpu,memory:/system.slice" (version
// 1).
std::vector<MemoryGroups> memory_groups(const std::string& proc, const std::string& groups) {
  std::vector<MemoryGroups> list;
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t names = line.find(':') + 1, end = line.find(":/", names);
    if (end == std::string::npos) continue;
    const std::string controllers = line.substr(names, end - names), group = line.substr(end + 1);
    if (line.starts_with("0::/")) {
      for (const std::string& root : {groups, groups + "/unified"})
        list.push_back({root, group, "memory.current", {"memory.max", "memory.high"}});
    }
    if (("," + controllers + ",").find(",memory,") != std::string::npos)
      list.push_back({groups + "/memory", group, "memory.usage_in_bytes", {"memory.limit_in_bytes"}});
  }
  return list;
}

// Returns the amount of memory that a group may still use. Cached file pages count as free.
int64_t room_in_group(const std::string& folder, const MemoryGroups& names) {
  int64_t limit = INT64_MAX;
  for (const std::string& file : names.limits) {
    // -1 if the file is missing or contains "max"
    const int64_t found = number_in(std::filesystem::path(folder) / file, -1);
    if (found >= 0) limit = std::min(limit, found);
  }
  if (limit == INT64_MAX) return limit;
  int64_t used = std::max<int64_t>(0, number_in(std::filesystem::path(folder) / names.usage, 0)), bytes = 0;
  std::ifstream stat(folder + "/memory.stat");
  for (std::string key; stat >> key >> bytes;) {
    if (key == "inactive_file" || key == "active_file") used -= std::clamp<int64_t>(bytes, 0, used);
  }
  return std::max<int64_t>(0, limit - used);
}

// Returns the minimum over a group and all of its ancestors. Inside a container, the root folder is the
// container's own group.
int64_t room_in_groups(const MemoryGroups& names) {
  std::string group = names.group;
  int64_t room = room_in_group(names.root, names);
  for (; group.size() > 1; group.resize(group.rfind('/')))
    room = std::min(room, room_in_group(names.root + group, names));
  return room;
}

}  // namespace

int64_t resident_bytes() {
  return bytes_of("/proc/self/status", "VmRSS:");
}

int64_t peak_resident_bytes() {
  return bytes_of("/proc/self/status", "VmHWM:");
}

int64_t available_memory(const std::string& proc, const std::string& groups) {
  int64_t available = bytes_of(proc + "/meminfo", "MemAvailable:");
  for (const MemoryGroups& names : memory_groups(proc, groups))
    available = std::min(available, room_in_groups(names));
  return available;
}

void reset_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace gpt

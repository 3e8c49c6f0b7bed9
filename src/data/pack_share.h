#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// One of several processes that pack a text together: number 1 to count.
struct PackTask {
  int64_t number = 1, count = 1;
  bool operator==(const PackTask&) const = default;
};

inline constexpr const char* kPackTasksFolder = ".tasks";
inline constexpr int64_t kMaxPackTasks = 500;  // a merge holds a lock of each, and 1024 files may be open

// "3/8". Throws UsageError for anything else than two numbers, 1 to kMaxPackTasks, the first not larger.
PackTask parse_pack_task(const std::string& text);
std::string task_name(const PackTask& task);                            // "3/8"
std::string task_folder(const std::string& out, const PackTask& task);  // OUT/.tasks/3-of-8
// The tasks that have a folder below `out`, by number; none where there is no such folder.
std::vector<PackTask> tasks_in(const std::string& out);
// Throws Error saying what to do where there are tasks that nobody merged.
void require_no_tasks(const std::string& out);

// Which blocks of text a task encodes. Blocks of a file are dealt to tasks by the number of the block alone,
// so that nothing need be known of what is compressed: block k stands for the place frac(k φ) of the file,
// and each task has an equal part of all files, by their sizes. So it reads a few whole files and parts of
// others, and φ spreads the blocks of a file over its tasks as evenly as can be.
class TaskShare {
 public:
  // Throws Error naming a file that cannot be read.
  TaskShare(const std::vector<std::string>& files, const PackTask& task);

  const std::vector<int64_t>& files() const { return files_; }  // that may have a block of the task
  bool has(int64_t file, int64_t block) const;

 private:
  int64_t owner(uint64_t place) const;

  PackTask task_;
  uint64_t total_ = 0;
  std::vector<uint64_t> begins_, sizes_;  // of all files, in bytes of text, about
  std::vector<int64_t> files_;
};

}  // namespace gpt

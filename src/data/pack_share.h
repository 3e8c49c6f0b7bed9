#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text_blocks.h"

namespace gpt {

// One of several processes that pack the same text: task `number` of `count`, counted from 1.
struct PackTask {
  int64_t number = 1, count = 1;
  bool operator==(const PackTask&) const = default;
};

inline constexpr const char* kTaskWordsFile = "words";  // file of word counts in a task folder
// A merge keeps one lock file open for each task, and a process can usually open 1024 files.
inline constexpr int64_t kMaxPackTasks = 500;

// Parses a task such as "3/8". Throws invalid_argument unless the text has two numbers from 1 to
// kMaxPackTasks and the first number is not larger than the second.
PackTask parse_pack_task(const std::string& text);
std::string task_name(const PackTask& task);                            // returns "3/8"
std::string task_folder(const std::string& out, const PackTask& task);  // returns OUT/.tasks/3-of-8
// Returns the tasks that have a folder below `out`, in ascending order. Returns an empty list if there are
// none.
std::vector<PackTask> tasks_in(const std::string& out);
// Throws Error if `out` has tasks that are not merged. The message says how to merge the tasks.
void require_no_tasks(const std::string& out);

// Assigns blocks of text to a task. The assignment depends only on the number of a block in its file, so
// compressed files need not be read to compute it. Block k of a file is assigned to the position frac(k φ),
// as a fraction of the file size. Every task owns an equal range of the total file size. A task therefore
// reads a few whole files and parts of others. The golden ratio φ spreads the blocks of a file evenly over
// the tasks that share the file.
class TaskShare {
 public:
  // Throws Error naming a file that cannot be read.
  TaskShare(const std::vector<std::string>& files, const PackTask& task);

  // Returns the indices of the files that may contain blocks of this task.
  const std::vector<int64_t>& files() const { return files_; }
  bool has(int64_t file, int64_t block) const;

 private:
  int64_t owner(uint64_t place) const;

  PackTask task_;
  uint64_t total_ = 0;
  std::vector<uint64_t> begins_, sizes_;  // start and size of each file, in estimated bytes of text
  std::vector<int64_t> files_;
};

// Iterates over the blocks of text of a task, in order. Without a share, iterates over all blocks.
class SharedBlocks {
 public:
  // The share must be made from the same files and must outlive this object.
  SharedBlocks(const std::vector<std::string>& files, const TextBlockOptions& options,
               const TaskShare* share);

  // Reads the next block and sets `number` to its index in the file. Returns false at the end.
  bool next(TextBlock& block, int64_t& number);
  // Continues at `position`, where a block must begin.
  void skip_to(const TextPosition& position);
  uint64_t bytes_done() const { return blocks_.bytes_done(); }
  uint64_t bytes_total() const { return blocks_.bytes_total(); }

 private:
  const TaskShare* share_;
  TextBlocks blocks_;    // if there is a share, reads only the files of the share
  int64_t number_ = -1;  // number of the previous block
  TextPosition from_;    // with a share, blocks before this position are skipped
  bool at_end_ = false;  // true if no file is left to read
};

// Returns true if position `a` comes before `b` in the text. Ignores line numbers.
bool begins_before(const TextPosition& a, const TextPosition& b);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text_blocks.h"

namespace gpt {

// One of several processes that pack a text together: number 1 to count.
struct PackTask {
  int64_t number = 1, count = 1;
  bool operator==(const PackTask&) const = default;
};

inline constexpr const char* kTaskWordsFile = "words";  // of a task that counts words for a tokenizer
inline constexpr int64_t kMaxPackTasks = 500;  // a merge holds a lock of each, and 1024 files may be open

// "3/8". Throws invalid_argument for anything else than two numbers, 1 to kMaxPackTasks, the first not
// larger.
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

// The blocks of text that a task has, in order; without a share all of them.
class SharedBlocks {
 public:
  // The share, of the same files, must outlive it.
  SharedBlocks(const std::vector<std::string>& files, const TextBlockOptions& options,
               const TaskShare* share);

  bool next(TextBlock& block, int64_t& number);  // and its number in its file; false at the end
  // Goes on at a place where a block began.
  void skip_to(const TextPosition& position);
  uint64_t bytes_done() const { return blocks_.bytes_done(); }
  uint64_t bytes_total() const { return blocks_.bytes_total(); }

 private:
  const TaskShare* share_;
  TextBlocks blocks_;    // of a share: of its files
  int64_t number_ = -1;  // of the block that was read last
  TextPosition from_;    // of a share: what begins before is passed over
  bool at_end_ = false;  // nothing is left to read
};

// Whether a place comes earlier in the text; lines do not count.
bool begins_before(const TextPosition& a, const TextPosition& b);

}  // namespace gpt

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/pack_share.h"
#include "data/pack_state.h"

namespace gpt {

// Encodes a task's share of the text (TaskShare) to pieces in task_folder(options.out, task). A task writes
// only to this folder, so tasks can run at the same time on different machines that share a file system. The
// same call resumes an interrupted task. It rewrites the first missing or damaged piece and all pieces after
// it. In the returned stats, `shards` is the number of pieces. Throws the errors of pack_tokens. Also throws
// Error when the task was started with different inputs, when other tasks have a different task count, or
// when `out` is already packed.
PackStats pack_task(const Tokenizer& tokenizer, const PackOptions& options, const PackTask& task,
                    ThreadPool& pool, const std::function<void(const PackProgress&)>& progress = {});

// Returns the names of the incomplete tasks below `out`, such as "2/3 (not begun)" or "3/3". Returns an empty
// list if there are no tasks.
std::vector<std::string> missing_tasks(const std::string& out);

// The tasks of one pack, ready to be merged.
struct PackMerge {
  std::unique_ptr<Tokenizer> tokenizer;
  PackOptions options;            // the options that all tasks used
  std::vector<PackTask> tasks;    // tasks 1 to N; empty if the shards are already complete
  std::vector<PackState> states;  // one state per task
  bool done = false;              // true if the shards are already complete
};
// Reads the states of the tasks below `out`. Throws Error naming the tasks that are missing, damaged or
// incomplete, tasks with different inputs, and text that has changed since.
PackMerge plan_merge(const std::string& out);
// Writes the same shards, pack.json and tokenizer.json, byte for byte, as a single call of pack_tokens. The
// same call resumes an interrupted merge. A merge does not read the text, and its memory use does not depend
// on the size of the text. Throws the errors of pack_tokens, and Error naming the task and the file that is
// damaged.
PackStats merge_tasks(const PackMerge& merge, const std::function<void(const PackProgress&)>& progress = {});
// Removes the files that tasks wrote below `out`, after the merge. Keeps all other files.
void remove_tasks(const std::string& out);

// Returns the value of PackState::inputs for a task: the task, and the inputs of the pack under the key
// "pack".
std::string task_inputs(const std::string& pack_inputs, const PackOptions& options, const PackTask& task);
// Describes the first input of a task that differs from the expected inputs. Returns "" if only the task
// number differs.
std::string other_than(const PackState& found, const PackState& expected);

}  // namespace gpt

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/pack_share.h"
#include "data/pack_state.h"

namespace gpt {

// Encodes a task's share of the text (TaskShare) to pieces in task_folder(options.out, task), and nothing
// elsewhere: so tasks may run at one time, on any machines that see the same files. After a kill at any
// moment the same call goes on; pieces that are missing or damaged are written again, with those behind them.
// Of the stats, shards are pieces. Throws Error as pack_tokens does, and Error where the task
// was begun with something else, where tasks are of another count, or `out` is packed already.
PackStats pack_task(const Tokenizer& tokenizer, const PackOptions& options, const PackTask& task,
                    ThreadPool& pool, const std::function<void(const PackProgress&)>& progress = {});

// Which tasks of those below `out` are not complete, in words: "2/3 (not begun)", "3/3". Without tasks: none.
std::vector<std::string> missing_tasks(const std::string& out);

// Tasks that can be merged.
struct PackMerge {
  std::unique_ptr<Tokenizer> tokenizer;
  PackOptions options;            // that all were given
  std::vector<PackTask> tasks;    // 1 to N; none: a merge was interrupted behind its end, or there was none
  std::vector<PackState> states;  // of the tasks
  bool done = false;              // the shards are there
};
// Reads what the tasks below `out` say. Throws Error naming tasks that are missing, damaged or not complete,
// that go not together, or whose text has changed since.
PackMerge plan_merge(const std::string& out);
// Makes the shards, pack.json and tokenizer.json that one pack_tokens would have made, byte for byte, and
// goes on after a kill as that does. Text is not read, memory does not depend on it. Throws as pack_tokens
// does, and Error naming the task and the file that is damaged.
PackStats merge_tasks(const PackMerge& merge, const std::function<void(const PackProgress&)>& progress = {});
// Removes what tasks wrote below `out`, once it is merged; what somebody else put there stays.
void remove_tasks(const std::string& out);

// What a task's PackState has as its inputs: the task, and those of the pack as "pack".
std::string task_inputs(const std::string& pack_inputs, const PackOptions& options, const PackTask& task);
// What a task was made of that is other than expected, in words; "" where only the task is.
std::string other_than(const PackState& found, const PackState& expected);

}  // namespace gpt

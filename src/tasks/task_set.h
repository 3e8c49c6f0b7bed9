#pragma once

#include <string>
#include <vector>

#include "tasks/task_config.h"

namespace gpt {

// A metric that is aggregated over the tasks of a group.
struct GroupMetric {
  std::string metric;
  std::vector<std::string> filters;  // empty: all filters of its tasks
  bool weight_by_size = true;
};

struct TaskGroup {
  std::string name, alias;
  std::vector<size_t> tasks;  // without duplicates, and including those of nested groups
  std::vector<GroupMetric> metrics;
  int depth = 0;  // number of enclosing groups
};

// The tasks to run, without duplicates, and the groups that contain them. Outer groups come before their
// inner groups.
struct TaskSet {
  std::vector<TaskConfig> tasks;
  std::vector<TaskGroup> groups;
};

// Reads tasks and groups of lm-evaluation-harness. A group lists the names of tasks, groups and tags. A tag
// stands for all tasks with this tag. Searches these names in all .yaml files of the group's folder and its
// subfolders. Throws Error naming file, line and key. This includes a name that is not found and a group that
// contains itself.
TaskSet read_task_set(const std::vector<std::string>& paths);

}  // namespace gpt

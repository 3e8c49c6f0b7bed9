#pragma once

#include <string>
#include <vector>

#include "tasks/task_config.h"

namespace gpt {

// A score over the tasks of a group.
struct GroupMetric {
  std::string metric;
  std::vector<std::string> filters;  // none: all that its tasks have
  bool weight_by_size = true;
};

struct TaskGroup {
  std::string name, alias;
  std::vector<size_t> tasks;  // those of its groups too, each once
  std::vector<GroupMetric> metrics;
  int depth = 0;  // groups around it
};

// Tasks to run, each name once, and the groups that they were named by, outer ones first.
struct TaskSet {
  std::vector<TaskConfig> tasks;
  std::vector<TaskGroup> groups;
};

// Reads tasks and groups of lm-evaluation-harness. What a group names is looked for in all .yaml files of the
// folder of its file and those below: tasks, groups, and tags for all tasks that have them. Throws Error
// naming file, line and key; for names that are not found; for groups inside themselves.
TaskSet read_task_set(const std::vector<std::string>& paths);

}  // namespace gpt

#include "finetune/task.h"

#include "base/error.h"
#include "finetune/chat_task.h"
#include "finetune/dpo.h"
#include "finetune/grpo.h"
#include "finetune/head_task.h"
#include "finetune/tune_config.h"

namespace gpt {

std::unique_ptr<Task> make_task(const TaskSources& sources) {
  const std::string& name = sources.config.task;
  if (name == "chat") return make_chat_task(sources);
  if (name == "dpo") return make_dpo_task(sources);
  if (name == "grpo") return make_grpo_task(sources);
  if (const std::optional<TaskKind> kind = find_task(name)) return make_head_task(*kind, sources);
  fail_usage("task: unknown \"{}\"", name.substr(0, 64));
}

}  // namespace gpt

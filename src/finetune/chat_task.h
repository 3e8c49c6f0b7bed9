#pragma once

#include "finetune/task.h"

namespace gpt {

// Creates the chat task, which trains on conversations. The targets are only the tokens of the assistant
// messages. Conversations are JSON lines with "messages" (OpenAI) or "conversations" (ShareGPT). Several
// conversations are packed into a row, but they do not attend to each other. The entries of `data` are FILE
// or FILE=WEIGHT. WEIGHT sets the fraction of samples that come from FILE.
std::unique_ptr<Task> make_chat_task(const TaskSources& sources);

}  // namespace gpt

#pragma once

#include "finetune/task.h"

namespace gpt {

// Conversations, of which only what the assistant says is learned: JSON lines of "messages" (OpenAI) or
// "conversations" (ShareGPT), packed into rows that let none see another. data: FILE, or FILE=WEIGHT for its
// share.
std::unique_ptr<Task> make_chat_task(const TaskSources& sources);

}  // namespace gpt

#pragma once

#include "finetune/task.h"

namespace gpt {

// Creates the chat task. It trains on conversations and learns only the tokens of the assistant's messages.
// Conversations are JSON lines with "messages" (OpenAI) or "conversations" (ShareGPT). They are packed into
// rows so that conversations in a row cannot attend to each other. `data` has entries FILE or FILE=WEIGHT,
// where WEIGHT sets the fraction of samples from the file.
std::unique_ptr<Task> make_chat_task(const TaskSources& sources);

}  // namespace gpt

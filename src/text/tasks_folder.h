// The folder in which the tasks of an array job store their partial results until the results are merged.
#pragma once

namespace gpt {

inline constexpr const char* kTasksFolder = ".tasks";  // relative to the tokenizer or shard folder

}  // namespace gpt

// Where tasks of an array job keep what they made of their parts of a text until it is merged.
#pragma once

namespace gpt {

inline constexpr const char* kTasksFolder = ".tasks";  // in the folder of the tokenizer or of the shards

}  // namespace gpt

#include "task_targets.h"

// The first byte selects the parser for the remaining bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] == '\'') {
    gpt::fuzz_literal(data + 1, size - 1);
  } else if (data[0] == '/') {
    gpt::fuzz_python_regex(data + 1, size - 1);
  } else {
    gpt::fuzz_yaml(data, size);
  }
  return 0;
}

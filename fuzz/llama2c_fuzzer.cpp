#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gpt::fuzz_llama2c(data, size);
  return 0;
}

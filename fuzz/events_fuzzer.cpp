#include "serve_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gpt::fuzz_events(data, size);
  return 0;
}

#include "bench/memory.h"

#include <fstream>
#include <string>

namespace gpt {
namespace {

// A line such as "VmHWM:     1234 kB".
int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

int64_t resident_bytes() {
  return status_bytes("VmRSS:");
}
int64_t peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

void reset_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace gpt

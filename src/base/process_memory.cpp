#include "base/process_memory.h"

#include <fstream>
#include <string>

namespace gpt {
namespace {

// Of a line such as "VmHWM:     1234 kB".
int64_t bytes_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  int64_t kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

int64_t resident_bytes() {
  return bytes_of("/proc/self/status", "VmRSS:");
}

int64_t peak_resident_bytes() {
  return bytes_of("/proc/self/status", "VmHWM:");
}

int64_t available_memory() {
  return bytes_of("/proc/meminfo", "MemAvailable:");
}

void reset_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace gpt

#pragma once

#include <cstdint>
#include <string>

namespace gpt {

// Return the current and the peak resident memory of this process in bytes, including the file pages that it
// has touched. Return 0 if /proc does not report it.
int64_t resident_bytes();
int64_t peak_resident_bytes();

// Returns the memory in bytes that the process can still allocate without swapping: the available memory of
// the system, limited by the remaining memory of the control groups of the process. Returns 0 if the system
// does not report it. proc, groups: other folders for tests.
int64_t available_memory(const std::string& proc = "/proc", const std::string& groups = "/sys/fs/cgroup");

// Resets the peak to the current resident memory. Has no effect if the system does not support this.
void reset_peak_resident();

}  // namespace gpt

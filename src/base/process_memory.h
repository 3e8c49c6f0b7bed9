#pragma once

#include <cstdint>
#include <string>

namespace gpt {

// Memory of this process in bytes as the kernel counts it, pages of files that it has touched included;
// 0 where the system does not say (/proc).
int64_t resident_bytes();
int64_t peak_resident_bytes();

// What the system could still give out without swapping, and no more than the process's control groups
// (cgroup v2) leave of their limits; 0 where it does not say. proc, groups: other folders for tests.
int64_t available_memory(const std::string& proc = "/proc", const std::string& groups = "/sys/fs/cgroup");

// Lets the peak start again from what is resident now. Without effect where the system does not offer it.
void reset_peak_resident();

}  // namespace gpt

#pragma once

#include <cstdint>

namespace gpt {

// Memory of this process in bytes as the kernel counts it, pages of files that it has touched included;
// 0 where the system does not say (/proc).
int64_t resident_bytes();
int64_t peak_resident_bytes();

// What the system could still give out without swapping; 0 where it does not say.
int64_t available_memory();

// Lets the peak start again from what is resident now. Without effect where the system does not offer it.
void reset_peak_resident();

}  // namespace gpt

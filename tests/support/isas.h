#pragma once

#include <cstdlib>
#include <ostream>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/sanitizer.h"

namespace gpt {

// What parameters of tests are called in their names. Without them GoogleTest prints bytes, which differ from
// build to build where they are pointers.
inline void PrintTo(Isa isa, std::ostream* out) {
  *out << isa_name(isa);
}
inline void PrintTo(DType dtype, std::ostream* out) {
  *out << dtype_name(dtype);
}

inline bool is_shadow() {
  static const bool shadow = std::getenv("GPT_SHADOW") != nullptr;
  return shadow;
}

// The instruction sets of this machine and build that a test goes through. With sanitizers, where a test
// takes ten times as long, the reference, the narrowest and the widest: those between run the same sources.
// On the shadow device (support/shadow_device.h) the widest alone.
inline std::vector<Isa> available_isas() {
  if (is_shadow()) return {best_isa()};
  std::vector<Isa> isas;
  for (const Isa isa : kIsas) {
    if (isa <= best_isa() && (!test::kSanitized || isa <= Isa::avx2 || isa == best_isa()))
      isas.push_back(isa);
  }
  return isas;
}

}  // namespace gpt

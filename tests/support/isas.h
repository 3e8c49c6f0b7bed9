#pragma once

#include <cstdlib>
#include <ostream>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/sanitizer.h"

namespace gpt {

// Prints parameters of tests by name. Without these functions GoogleTest prints the bytes of a parameter. If
// the parameter contains a pointer, its bytes differ between builds.
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

// Returns the instruction sets that a test iterates over, which are those of this machine and build. Tests
// take ten times as long with sanitizers, so sanitizer builds only use the reference kernels, the narrowest
// set and the widest set. The sets in between are compiled from the same sources. The shadow device
// (support/shadow_device.h) uses only the widest set.
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

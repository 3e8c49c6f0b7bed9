#include "kernels/cpu/simd/philox.h"
#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

template <class Out, class In>
void drop(Out* out, const In* x, int64_t n, const DropoutSpan& span) {
  constexpr int64_t kGroup = 4 * kLanes;
  float factors[kGroup];
  auto skip = static_cast<int64_t>(span.first % 4);  // number of words of the first counter that belong to
                                                     // earlier elements
  uint64_t counter = span.first / 4;
  for (int64_t done = 0; done < n; counter += kLanes) {
    philox_factors(counter, span.key, span.last_dropped, span.scale, factors);
    const float* factor = factors + skip;
    const int64_t count = n - done < kGroup - skip ? n - done : kGroup - skip;
    Out* const to = out + done;
    const In* const from = x + done;
    // Multiplies instead of selecting, so that a dropped NaN stays NaN.
    for_vectors(count, [=](int64_t i, auto lanes) {
      store(to + i, load(from + i, lanes) * load(factor + i, lanes), lanes);
    });
    done += count;
    skip = 0;
  }
}

void dropout(void* out_row, Stored out_type, const void* x, Stored x_type, int64_t n,
             const DropoutSpan& span) {
  with_float_type(out_type, out_row, [&]<class Out>(Out* out) {
    if (x_type == out_type) {
      drop(out, static_cast<const Out*>(x), n, span);
    } else {
      drop(out, static_cast<const float*>(x), n, span);
    }
  });
}

}  // namespace

void set_dropout(RowKernels& k) noexcept {
  k.dropout = dropout;
}

}  // namespace gpt::GPT_SIMD_NAMESPACE

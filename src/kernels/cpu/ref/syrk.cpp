#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void syrk(const ExecContext& ctx, const SyrkArgs& a) noexcept {
  dispatch(ctx, a.y.dtype, [&]<class T>(T) {
    for_rows(ctx, a.y.rows(), [&](int64_t i) {
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < a.x.cols(); ++l)
          sum += double{rounded(get<T>(a.x, i, l), a.compute)} * rounded(get<T>(a.x, j, l), a.compute);
        set(a.y, i, j, sum);
        set(a.y, j, i, sum);
      }
    });
  });
}

ScratchNeed syrk_scratch(int64_t, int64_t, DType) {
  return {};
}

}  // namespace gpt::ref

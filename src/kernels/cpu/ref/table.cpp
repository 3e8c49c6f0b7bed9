#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

KernelTable table() {
  KernelTable t;
#define GPT_REF_ENTRY(name, Args) t.name = &name;
  GPT_FOR_EACH_OP(GPT_REF_ENTRY)
#undef GPT_REF_ENTRY
  t.norm_backward_scratch = [](int64_t, int64_t, DType) { return ScratchNeed{}; };
  t.linear_scratch = linear_scratch;
  t.attention_scratch = attention_scratch;
  t.select_candidates_scratch = select_candidates_scratch;
  t.syrk_scratch = syrk_scratch;
  t.packed_bytes = packed_bytes;
  return t;
}

}  // namespace gpt::ref

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

KernelTable table() {
  KernelTable t;
#define GPT_REF_ENTRY(name, Args) t.name = &name;
  GPT_FOR_EACH_OP(GPT_REF_ENTRY)
#undef GPT_REF_ENTRY
  return t;
}

}  // namespace gpt::ref

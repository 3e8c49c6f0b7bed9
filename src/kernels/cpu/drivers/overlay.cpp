#include "kernels/cpu/drivers/attention.h"
#include "kernels/cpu/drivers/drivers.h"

#ifdef GPT_HAVE_SIMD
namespace gpt {
namespace {

using KernelSet = const RowKernels& (*)() noexcept;

// An entry of the kernel table that calls the driver with the kernels of one instruction set.
template <auto driver, KernelSet kernels, class Args>
void entry(const ExecContext& ctx, const Args& a) noexcept {
  driver(kernels(), ctx, a);
}

template <KernelSet kernels>
void overlay_rows(KernelTable& table) {
#define GPT_ROW_ENTRY(name, Args) table.name = &entry<&drivers::name, kernels, Args>;
  GPT_FOR_EACH_ROW_OP(GPT_ROW_ENTRY)
#undef GPT_ROW_ENTRY
  table.norm_backward_scratch = drivers::norm_backward_scratch;
  table.attention_scratch = attention_scratch;
}

}  // namespace

void overlay_avx2(KernelTable& table) {
  overlay_rows<&avx2_row_kernels>(table);
  table.attention_forward = &attention_forward<Isa::avx2>;
  table.attention_backward = &attention_backward<Isa::avx2>;
}
void overlay_avx512(KernelTable& table) {
  overlay_rows<&avx512_row_kernels>(table);
  table.attention_forward = &attention_forward<Isa::avx512>;
  table.attention_backward = &attention_backward<Isa::avx512>;
}

void overlay_avx512bf16(KernelTable& table) {
  table.attention_forward = &attention_forward<Isa::avx512bf16>;
  table.attention_backward = &attention_backward<Isa::avx512bf16>;
}

void overlay_amx(KernelTable& table) {
  table.attention_forward = &attention_forward<Isa::amx>;
  table.attention_backward = &attention_backward<Isa::amx>;
}

}  // namespace gpt
#endif

#pragma once

#include <string_view>

#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "tensor/device.h"

namespace gpt {

// Instruction sets of the CPU backend, each a superset of the previous one: `ref` is the scalar reference
// (portable C++), `avx512bf16` adds AVX512_BF16 and AVX512_VNNI, `amx` adds tiles for bf16 and int8.
enum class Isa : uint8_t { ref, avx2, avx512, avx512bf16, amx };
inline constexpr Isa kIsas[] = {Isa::ref, Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::amx};

// The ops of a backend, as one function pointer for each op, and their memory requirements. The table is
// chosen once, when a Backend is made.
struct KernelTable {
  // Name of the backend and its variant ("avx512"). All ranks of a distributed run must have the same name.
  std::string_view name = "ref";
  // Layout of packed weights, part of the key of a packed matrix. For the CPU backend, the Isa as a number.
  int layout = 0;
#define GPT_OP_ENTRY(name, Args) void (*name)(const ExecContext&, const Args&) noexcept = nullptr;
  GPT_FOR_EACH_OP(GPT_OP_ENTRY)
#undef GPT_OP_ENTRY

  // Return the scratch memory for calls with sizes up to the given ones. All other ops need none.
  // dtype: the widest dtype of the activations.
  ScratchNeed (*norm_backward_scratch)(int64_t rows, int64_t cols, DType dtype) = nullptr;
  // For x w^T, or for both products of the backward pass. dtype: that of the packed weights, or of `w`.
  ScratchNeed (*linear_scratch)(int64_t rows, int64_t out, int64_t in, DType dtype, bool backward) = nullptr;
  // max_q: maximum queries of a sequence; max_kv: maximum keys that a query sees; dtype: the widest dtype of
  // the activations.
  ScratchNeed (*attention_scratch)(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                                   DType dtype) = nullptr;
  ScratchNeed (*select_candidates_scratch)(int64_t vocab_size) = nullptr;
  ScratchNeed (*syrk_scratch)(int64_t rows, int64_t cols, DType compute) = nullptr;

  // Returns the bytes of a PackedMatrix; 0 if this dtype and direction have no packed form, so that products
  // use the plain matrix (quantized matrices have none for dy w).
  int64_t (*packed_bytes)(DType dtype, int64_t out, int64_t in, bool transposed) = nullptr;
};

// Scratch memory on the device, provided by the caller so that ops never allocate.
struct Scratch {
  std::byte* shared = nullptr;
  std::byte* threads = nullptr;
  int64_t shared_bytes = 0;
  int64_t per_thread_bytes = 0;

  bool fits(const ScratchNeed& need) const {
    return need.shared <= shared_bytes && need.per_thread <= per_thread_bytes;
  }

  template <class T>
  T* thread(int t) const {
    return reinterpret_cast<T*>(threads + t * per_thread_bytes);
  }
  template <class T>
  T* all() const {
    return reinterpret_cast<T*>(shared);
  }
};

// The context of an op. Passed explicitly, because there is no global thread pool or table.
struct ExecContext {
  Device& device;    // receives the sticky error of a failed op
  ThreadPool& pool;  // used by CPU ops
  const KernelTable& kernels;
  Scratch scratch;
};

// Sets the sticky error of the device and returns from the op if the condition is false.
#define GPT_OP_REQUIRE(ctx, condition)                              \
  do {                                                              \
    if (!(condition)) {                                             \
      (ctx).device.set_error({.op = __func__, .what = #condition}); \
      return;                                                       \
    }                                                               \
  } while (false)

// Owns scratch memory of a given size; both regions are 64-byte aligned.
class Workspace {
 public:
  Workspace() = default;
  Workspace(ScratchNeed need, int threads, Device* device = nullptr);  // null: host memory
  Scratch scratch() const;
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  static int64_t bytes(ScratchNeed need, int threads);

 private:
  Buffer buffer_;
  int64_t shared_ = 0;
  int64_t per_thread_ = 0;
};

ScratchNeed max_need(ScratchNeed a, ScratchNeed b);

// Returns the scratch memory of the op muon, which calls other ops of the table, for a matrix of this shape
// and dtype.
ScratchNeed muon_scratch(const KernelTable& table, int64_t rows, int64_t cols, DType dtype, DType compute);

// Returns whether all elements of a floating-point view are finite. Waits for the device.
bool all_finite(const ExecContext& ctx, const TensorView& view);

std::string_view isa_name(Isa isa);
Isa isa_of(const KernelTable& table);  // requires a table of the CPU backend
Isa best_isa();                        // the widest instruction set of this CPU and this build
Isa parse_isa(std::string_view name);  // throws invalid_argument if unknown or not available
const KernelTable& kernel_table(Isa isa);

namespace ref {
KernelTable table();  // complete, for fp32 and fp64
}
// Each replaces entries of a complete table.
void overlay_avx2(KernelTable& table);
void overlay_avx512(KernelTable& table);
void overlay_avx512bf16(KernelTable& table);
void overlay_amx(KernelTable& table);
void overlay_gemm(KernelTable& table, Isa isa);

}  // namespace gpt

#pragma once

#include <string_view>

#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "tensor/device.h"

namespace gpt {

// Instruction sets of the CPU backend, each a superset of the one before: `ref` is the scalar reference
// (portable C++), `avx512bf16` adds AVX512_BF16 and AVX512_VNNI, `amx` adds tiles for bf16 and int8.
enum class Isa : uint8_t { ref, avx2, avx512, avx512bf16, amx };
inline constexpr Isa kIsas[] = {Isa::ref, Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::amx};

// The ops of a backend, one function each, and the memory that they need. The table is chosen once, when a
// Backend is made.
struct KernelTable {
  // Name of the backend and its variant ("avx512"). Part of the identity of a distributed run: all ranks must
  // have the same.
  std::string_view name = "ref";
  // Layout of packed weights: part of the key of a packed matrix. Isa of the CPU backend, as a number.
  int layout = 0;
#define GPT_OP_ENTRY(name, Args) void (*name)(const ExecContext&, const Args&) noexcept = nullptr;
  GPT_FOR_EACH_OP(GPT_OP_ENTRY)
#undef GPT_OP_ENTRY

  // Scratch memory of a call with sizes up to these; ops that are not named here need none.
  // dtype: the widest type of the activations.
  ScratchNeed (*norm_backward_scratch)(int64_t rows, int64_t cols, DType dtype) = nullptr;
  // Of x w^T, or of both products of the backward pass, in `dtype`: the type of the packed weights, or of
  // `w`.
  ScratchNeed (*linear_scratch)(int64_t rows, int64_t out, int64_t in, DType dtype, bool backward) = nullptr;
  // max_q: queries of a sequence; max_kv: keys that a query sees; dtype: the widest type of the activations.
  ScratchNeed (*attention_scratch)(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                                   DType dtype) = nullptr;
  ScratchNeed (*select_candidates_scratch)(int64_t vocab_size) = nullptr;
  ScratchNeed (*syrk_scratch)(int64_t rows, int64_t cols, DType compute) = nullptr;

  // Bytes of a PackedMatrix; 0 if there is no packed form of this type and direction (quantized matrices have
  // none for dy w): then the plain matrix is used.
  int64_t (*packed_bytes)(DType dtype, int64_t out, int64_t in, bool transposed) = nullptr;
};

// Device memory for ops that need it, provided by the caller so that ops never allocate.
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

// What an op needs besides its arguments. Passed down explicitly: there is no global pool or table.
struct ExecContext {
  Device& device;    // gets the error of an op that fails
  ThreadPool& pool;  // for ops of the CPU
  const KernelTable& kernels;
  Scratch scratch;
};

// Sets the sticky error of the device and returns from the op if a condition does not hold.
#define GPT_OP_REQUIRE(ctx, condition)                              \
  do {                                                              \
    if (!(condition)) {                                             \
      (ctx).device.set_error({.op = __func__, .what = #condition}); \
      return;                                                       \
    }                                                               \
  } while (false)

// Owns scratch memory of a given need; both regions are 64-byte aligned.
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

// Scratch memory of the op muon, which calls other ops of the table, for a matrix of this shape and type.
ScratchNeed muon_scratch(const KernelTable& table, int64_t rows, int64_t cols, DType dtype, DType compute);

// Whether all elements of a view, of a floating-point type, are finite. Waits for the device.
bool all_finite(const ExecContext& ctx, const TensorView& view);

std::string_view isa_name(Isa isa);
Isa isa_of(const KernelTable& table);  // of the CPU backend
Isa best_isa();                        // the widest set that this CPU and this build have
Isa parse_isa(std::string_view name);  // throws invalid_argument when unknown or not available here
const KernelTable& kernel_table(Isa isa);

namespace ref {
KernelTable table();  // complete, for fp32 and fp64
}
// Each replaces entries of a table that is complete.
void overlay_avx2(KernelTable& table);
void overlay_avx512(KernelTable& table);
void overlay_avx512bf16(KernelTable& table);
void overlay_amx(KernelTable& table);
void overlay_gemm(KernelTable& table, Isa isa);

}  // namespace gpt

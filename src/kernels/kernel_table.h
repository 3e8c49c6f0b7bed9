#pragma once

#include <string_view>

#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "tensor/device.h"

namespace gpt {

// Instruction sets of the CPU backend. Each instruction set is a superset of the previous one. `ref` is the
// scalar reference (portable C++), `avx512bf16` adds AVX512_BF16 and AVX512_VNNI, and `amx` adds AMX tiles
// for bf16 and int8.
enum class Isa : uint8_t { ref, avx2, avx512, avx512bf16, amx };
inline constexpr Isa kIsas[] = {Isa::ref, Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::amx};

// The kernel table of a backend: one function pointer for each op, and functions that return the memory
// requirements of the ops. The table is chosen once, when the Backend is created.
struct KernelTable {
  // Name of the backend and its instruction set, such as "avx512". All ranks of a distributed run must use a
  // table of the same name.
  std::string_view name = "ref";
  // Identifies the memory layout of packed weights; part of the cache key of a packed matrix. The CPU backend
  // stores its Isa here, as an integer.
  int layout = 0;
#define GPT_OP_ENTRY(name, Args) void (*name)(const ExecContext&, const Args&) noexcept = nullptr;
  GPT_FOR_EACH_OP(GPT_OP_ENTRY)
#undef GPT_OP_ENTRY

  // These functions return the scratch memory that an op needs. The memory is sufficient for all sizes up to
  // the given sizes. Ops without such a function need no scratch memory. dtype: the widest dtype of the
  // activations.
  ScratchNeed (*norm_backward_scratch)(int64_t rows, int64_t cols, DType dtype) = nullptr;
  // Returns the scratch memory of the product x w^T or, if `backward` is set, of both products of the
  // backward pass. dtype: the dtype of the packed weights, or of `w`.
  ScratchNeed (*linear_scratch)(int64_t rows, int64_t out, int64_t in, DType dtype, bool backward) = nullptr;
  // max_q: maximum number of queries of a sequence; max_kv: maximum number of keys that a query attends to;
  // dtype: the widest dtype of the activations.
  ScratchNeed (*attention_scratch)(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                                   DType dtype) = nullptr;
  ScratchNeed (*select_candidates_scratch)(int64_t vocab_size) = nullptr;
  ScratchNeed (*syrk_scratch)(int64_t rows, int64_t cols, DType compute) = nullptr;

  // Returns the size of a PackedMatrix in bytes. Returns 0 if this dtype and direction have no packed form;
  // products then use the plain matrix. For example, quantized matrices have no packed form for dy w.
  int64_t (*packed_bytes)(DType dtype, int64_t out, int64_t in, bool transposed) = nullptr;
};

// Scratch memory on the device. The caller provides this memory, so that ops never allocate.
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

// The execution context of an op. Callers pass the context explicitly, because there is no global thread pool
// or kernel table.
struct ExecContext {
  Device& device;    // stores the error of a failed op until it is read
  ThreadPool& pool;  // the thread pool of CPU ops
  const KernelTable& kernels;
  Scratch scratch;
};

// If the condition is false, sets the sticky error of the device and returns from the op.
#define GPT_OP_REQUIRE(ctx, condition)                              \
  do {                                                              \
    if (!(condition)) {                                             \
      (ctx).device.set_error({.op = __func__, .what = #condition}); \
      return;                                                       \
    }                                                               \
  } while (false)

// Owns the scratch memory for a given ScratchNeed. The shared region and the per-thread regions are 64-byte
// aligned.
class Workspace {
 public:
  Workspace() = default;
  Workspace(ScratchNeed need, int threads, Device* device = nullptr);  // null device: host memory
  Scratch scratch() const;
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  static int64_t bytes(ScratchNeed need, int threads);

 private:
  Buffer buffer_;
  int64_t shared_ = 0;
  int64_t per_thread_ = 0;
};

ScratchNeed max_need(ScratchNeed a, ScratchNeed b);

// Returns the scratch memory that the op `muon` needs for a matrix of this shape and dtype, including the ops
// of `table` that muon calls.
ScratchNeed muon_scratch(const KernelTable& table, int64_t rows, int64_t cols, DType dtype, DType compute);

// Returns true if all elements of a floating-point view are finite. Waits for the device.
bool all_finite(const ExecContext& ctx, const TensorView& view);

std::string_view isa_name(Isa isa);
Isa isa_of(const KernelTable& table);  // requires a table of the CPU backend
Isa best_isa();                        // the best instruction set that both this CPU and this build support
Isa parse_isa(std::string_view name);  // throws invalid_argument if the name is unknown or the CPU lacks the
                                       // set
const KernelTable& kernel_table(Isa isa);

namespace ref {
KernelTable table();  // has every op, for fp32 and fp64
}
// Each function replaces some entries of a complete kernel table with faster kernels.
void overlay_avx2(KernelTable& table);
void overlay_avx512(KernelTable& table);
void overlay_avx512bf16(KernelTable& table);
void overlay_amx(KernelTable& table);
void overlay_gemm(KernelTable& table, Isa isa);

}  // namespace gpt

#include "kernels/kernel_table.h"

#include <algorithm>

#include "base/error.h"

#ifdef GPT_HAVE_SIMD
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace gpt {
namespace {

int64_t round_up(int64_t n) {
  return (n + 63) / 64 * 64;
}

#ifdef GPT_HAVE_SIMD
// True if the CPU has AMX tiles for bf16 and int8 and the operating system lets this process use them. On
// Linux, a process must request permission for the 8 KiB of tile state once (Linux,
// Documentation/arch/x86/xstate.rst).
bool has_amx() {
#ifdef GPT_EMULATE_AMX
  return true;
#elif defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTile | kInt8;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAll) != kAll) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

KernelTable build_table(Isa isa) {
  KernelTable table = ref::table();
  table.name = isa_name(isa);
  table.layout = static_cast<int>(isa);
#ifdef GPT_HAVE_SIMD
  if (isa >= Isa::avx2) overlay_avx2(table);
  if (isa >= Isa::avx512) overlay_avx512(table);
  if (isa >= Isa::avx512bf16) overlay_avx512bf16(table);
  if (isa >= Isa::amx) overlay_amx(table);
#endif
  if (isa != Isa::ref) overlay_gemm(table, isa);
  return table;
}

}  // namespace

Workspace::Workspace(ScratchNeed need, int threads, Device* device)
    : buffer_(static_cast<size_t>(bytes(need, threads)), "scratch memory", device),
      shared_(round_up(need.shared)),
      per_thread_(round_up(need.per_thread)) {}

int64_t Workspace::bytes(ScratchNeed need, int threads) {
  return round_up(need.shared) + round_up(need.per_thread) * threads;
}

Scratch Workspace::scratch() const {
  return {.shared = buffer_.data(),
          .threads = buffer_.data() + shared_,
          .shared_bytes = shared_,
          .per_thread_bytes = per_thread_};
}

ScratchNeed max_need(ScratchNeed a, ScratchNeed b) {
  return {std::max(a.shared, b.shared), std::max(a.per_thread, b.per_thread)};
}

bool all_finite(const ExecContext& ctx, const TensorView& view) {
  int64_t index = 0;
  DeviceArray<int64_t> device_index(&ctx.device);
  ctx.kernels.find_nonfinite(ctx, {.x = view, .index = device_index.share({&index, 1}, Access::write)});
  device_index.download({&index, 1});
  return index < 0;
}

std::string_view isa_name(Isa isa) {
  constexpr std::string_view kNames[] = {"ref", "avx2", "avx512", "avx512bf16", "amx"};
  return kNames[static_cast<size_t>(isa)];
}

Isa isa_of(const KernelTable& table) {
  return static_cast<Isa>(table.layout);
}

Isa best_isa() {
#ifdef GPT_HAVE_SIMD
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    const bool bf16 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
    if (!bf16) return Isa::avx512;
    return has_amx() ? Isa::amx : Isa::avx512bf16;
  }
  if (avx2) return Isa::avx2;
#endif
  return Isa::ref;
}

Isa parse_isa(std::string_view name) {
  for (Isa isa : kIsas) {
    if (name != isa_name(isa)) continue;
    if (isa > best_isa())
      fail_usage("GPT_ISA={}: this machine supports at most {}", name, isa_name(best_isa()));
    return isa;
  }
  fail_usage("GPT_ISA={}: expected ref, avx2, avx512, avx512bf16 or amx", name);
}

const KernelTable& kernel_table(Isa isa) {
  const auto build = [](Isa wanted) { return build_table(std::min(wanted, best_isa())); };
  static const KernelTable tables[] = {build(Isa::ref), build(Isa::avx2), build(Isa::avx512),
                                       build(Isa::avx512bf16), build(Isa::amx)};
  return tables[static_cast<size_t>(isa)];
}

}  // namespace gpt

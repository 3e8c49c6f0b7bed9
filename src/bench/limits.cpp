#include "bench/limits.h"

#include <algorithm>

#include "base/clock.h"
#include "kernels/rates.h"

namespace gpt {
namespace {

constexpr int kTries = 8;

// Stores the result of a loop, so that the compiler cannot remove the loop.
struct alignas(64) Sink {
  volatile float value = 0;
};

double operations_per_second(ThreadPool& pool, const RateLoop& loop) {
  if (loop.run == nullptr) return 0;
  std::vector<Sink> sinks(static_cast<size_t>(pool.size()));
  const auto run = [&](int64_t rounds) {
    return timed([&] {
      pool.parallel_for(
          pool.size(), [&](int64_t task, int) { sinks[static_cast<size_t>(task)].value = loop.run(rounds); });
    });
  };
  // A measurement takes at least this long, so that the time to wake the threads is negligible. The shortest
  // of several runs is compared with the limit, because an interrupt can make a short run look long.
  constexpr double kEnough = 5e-3;
  const auto best_of = [&](int tries, int64_t rounds) {
    double best = run(rounds);
    for (int i = 1; i < tries; ++i)
      best = std::min(best, run(rounds));
    return best;
  };
  int64_t rounds = 1 << 12;
  while (best_of(3, rounds) < kEnough)
    rounds *= 2;
  return static_cast<double>(rounds * loop.operations) * pool.size() / best_of(kTries, rounds);
}

}  // namespace

MemoryRate::MemoryRate(ThreadPool& pool, Isa isa, int64_t bytes)
    : pool_(pool),
      isa_(isa),
      n_(bytes / static_cast<int64_t>(sizeof(float))),
      memory_(static_cast<size_t>(n_) * sizeof(float), "the measurement of memory bandwidth") {
  // Write to all memory, because the system does not provide memory before it is touched.
  for_pieces([](float* p, int64_t count, int) { std::fill_n(p, count, 1.0f); });
}

// Calls body(pointer, elements, thread) for each piece of the memory.
template <class F>
void MemoryRate::for_pieces(F&& body) const {
  constexpr int64_t kPiece = 1 << 20;  // elements per piece
  pool_.parallel_for((n_ + kPiece - 1) / kPiece, [&](int64_t piece, int thread) {
    const int64_t first = piece * kPiece;
    body(memory_.as<float>() + first, std::min(kPiece, n_ - first), thread);
  });
}

double MemoryRate::measure(int tries) const {
  const RateKernels kernels = rate_kernels(isa_);
  std::vector<Sink> sinks(static_cast<size_t>(pool_.size()));
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    const double seconds = timed([&] {
      for_pieces([&](const float* p, int64_t count, int thread) {
        sinks[static_cast<size_t>(thread)].value = kernels.sum(p, count);
      });
    });
    best = std::max(best, static_cast<double>(n_) * sizeof(float) / seconds);
  }
  return best;
}

double MachineLimits::operations(DType dtype) const {
  if (dtype == DType::bf16 && bf16 > 0) return bf16;
  if (is_quantized(dtype) && int8 > 0) return int8;
  return fp32;
}

MachineLimits measure_limits(ThreadPool& pool, Isa isa, int64_t bytes) {
  const RateKernels kernels = rate_kernels(isa);
  return {.fp32 = operations_per_second(pool, kernels.fp32),
          .bf16 = operations_per_second(pool, kernels.bf16),
          .int8 = operations_per_second(pool, kernels.int8),
          .memory = MemoryRate(pool, isa, bytes).measure(kTries)};
}

MachineLimits between(const MachineLimits& a, const MachineLimits& b) {
  return {.fp32 = (a.fp32 + b.fp32) / 2,
          .bf16 = (a.bf16 + b.bf16) / 2,
          .int8 = (a.int8 + b.int8) / 2,
          .memory = (a.memory + b.memory) / 2};
}

}  // namespace gpt

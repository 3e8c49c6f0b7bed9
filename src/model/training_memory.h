#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gpt {

// How numbers are stored: bits, the largest finite value, bytes of one.
struct NumberFormat {
  std::string_view name;
  int sign, exponent, mantissa;
  double largest;
  int64_t bytes;
  std::string_view note;
};
// fp32, fp16, bf16 and fp8 (E4M3 of Micikevicius et al. 2022).
std::span<const NumberFormat> number_formats();

// How training with Adam keeps a parameter: bytes of each of its numbers.
struct TrainingFormat {
  std::string_view name;
  int64_t weight, gradient, master, moments;
  int64_t activation;  // bytes of one
};
// "fp32"; "autocast", which gpt train does with --dtype bf16 or fp16: fp32 weights, 16-bit activations and
// products; "mixed": 16-bit weights and gradients with an fp32 master copy (Micikevicius et al. 2018).
std::span<const TrainingFormat> training_formats();

// Bytes of what training keeps besides activations.
struct TrainingState {
  int64_t weights = 0, gradients = 0, master = 0, moments = 0;
  int64_t total() const { return weights + gradients + master + moments; }
};

inline constexpr int kZeroStages = 4;

// What each of `devices` holds with ZeRO (Rajbhandari et al. 2020): stage 0 a copy of everything; 1 shares
// out master weights and moments, 2 gradients too, 3 weights too. Shares are rounded up to parameters.
TrainingState training_state(int64_t parameters, const TrainingFormat& format, int stage = 0,
                             int64_t devices = 1);

}  // namespace gpt

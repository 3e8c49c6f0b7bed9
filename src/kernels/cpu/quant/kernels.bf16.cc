// Compiles kernels.cc for AVX512_VNNI (see simd/README.md).
#include "kernels/cpu/quant/kernels.cc"  // NOLINT(bugprone-suspicious-include): the same source

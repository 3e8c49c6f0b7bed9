#pragma once

#include <cstdint>

#include "kernels/array_ops.h"
#include "kernels/layer_ops.h"
#include "kernels/loss_ops.h"
#include "kernels/train_ops.h"

namespace gpt {

struct ExecContext;

// The op list. Every op has an argument struct in one of the headers above and an entry in KernelTable. The
// scalar reference in cpu/ref defines the result of each op, for float and double.
//
// Shapes. N: number of rows, which are the tokens of all sequences, one sequence after another; C: channels;
// H: query heads; Hkv: key/value heads; D: head dimension; V: vocabulary size. A TensorView or DeviceSpan
// without data is called absent.
//
// Memory. TensorView and DeviceSpan refer to device memory. Ops run in the order of the calls, but may still
// be running when the call returns. A HostSpan is read before the call returns, and all other arguments are
// passed by value. Ops never allocate memory; functions of KernelTable return the size of the scratch memory
// that an op needs. If a precondition is violated, the op sets the sticky error of the device
// (GPT_OP_REQUIRE).
//
// Order. Every output element is computed in a fixed order, so results do not depend on the number of
// threads.
//
// Dtypes. If all floating-point views of a call are fp64, the reference computes the op in double. Otherwise,
// these rules apply. Parameters, their gradients, statistics and optimizer moments are fp32. Activations
// (views marked "act" and their gradients) are fp32, bf16 or fp16, as set in their view. Arithmetic is in
// fp32 or better. Results are rounded to nearest, ties to even.

// Calls X(name, ArgsType) for every op, in table order.
#define GPT_FOR_EACH_OP(X)                            \
  X(embedding_forward, EmbeddingArgs)                 \
  X(embedding_backward, EmbeddingBackwardArgs)        \
  X(norm_forward, NormArgs)                           \
  X(norm_backward, NormBackwardArgs)                  \
  X(linear_forward, LinearArgs)                       \
  X(linear_backward_input, LinearBackwardInputArgs)   \
  X(linear_backward_weight, LinearBackwardWeightArgs) \
  X(pack_matrix, PackMatrixArgs)                      \
  X(act_forward, ActArgs)                             \
  X(act_backward, ActBackwardArgs)                    \
  X(rope, RopeArgs)                                   \
  X(qk_norm_forward, QkNormArgs)                      \
  X(qk_norm_backward, QkNormBackwardArgs)             \
  X(dropout, DropoutArgs)                             \
  X(attention_forward, AttentionArgs)                 \
  X(attention_backward, AttentionBackwardArgs)        \
  X(scatter_rows, ScatterRowsArgs)                    \
  X(compact_rows, CompactRowsArgs)                    \
  X(select_candidates, SelectCandidatesArgs)          \
  X(softcap, SoftcapArgs)                             \
  X(cross_entropy, CrossEntropyArgs)                  \
  X(pick_rows, PickRowsArgs)                          \
  X(pick_rows_backward, PickRowsBackwardArgs)         \
  X(label_loss, LabelLossArgs)                        \
  X(add, AddArgs)                                     \
  X(scaled_sum, ScaledSumArgs)                        \
  X(scaled_sum_backward, ScaledSumBackwardArgs)       \
  X(scale, ScaleArgs)                                 \
  X(preference, PreferenceArgs)                       \
  X(sum_losses, SumLossesArgs)                        \
  X(sum_squares, SumSquaresArgs)                      \
  X(range_squares, RangeSquaresArgs)                  \
  X(begin_step, BeginStepArgs)                        \
  X(finalize_grad_norm, FinalizeGradNormArgs)         \
  X(clamp, ClampArgs)                                 \
  X(convert, ConvertArgs)                             \
  X(swap, SwapArgs)                                   \
  X(find_nonfinite, FindNonfiniteArgs)                \
  X(adamw, AdamWArgs)                                 \
  X(update_squares, UpdateSquaresArgs)                \
  X(syrk, SyrkArgs)                                   \
  X(muon, MuonArgs)                                   \
  X(ema, EmaArgs)

// Scratch memory in bytes: one region that all threads share, and one region for each thread of the pool.
struct ScratchNeed {
  int64_t shared = 0;
  int64_t per_thread = 0;
};

// Returns the Philox key of a dropout site. Equal arguments give equal dropout masks.
uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t site, uint32_t layer);

}  // namespace gpt

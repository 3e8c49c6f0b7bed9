#pragma once

#include <cstdint>

#include "train/train_config.h"

namespace gpt {

// How much of a run evaluation takes. An evaluated token costs a forward pass: a third of a trained one.

// The most that evaluation takes of a run where the config leaves it open.
inline constexpr double kEvaluationShare = 0.05;

// Fills in eval_every and eval_batches where they are open (-1), from the steps alone: up to 20 times up to
// 50 batches, so few that they take at most kEvaluationShare of the run; at least one batch at the end.
void complete_rhythm(TrainConfig& config);

// Evaluations of the run, the one before its first step included.
int64_t evaluations(const TrainConfig& config, int64_t steps);
// Batches that these evaluate together, of one text or both.
int64_t evaluated_batches(const TrainConfig& config, int64_t steps);
// The share of the run's floating-point operations that goes to evaluation, 0 to 1.
double evaluation_share(const TrainConfig& config);

}  // namespace gpt

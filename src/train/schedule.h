#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// The learning rate of a step, counted from 0. Linear warm-up from 0 over `warmup` steps, then
//   cosine:   min + (lr - min) (1 + cos(pi x)) / 2, x the share of the remaining steps done
//   linear:   a straight line to min
//   constant: lr
//   wsd:      lr, then a straight line to min over the last fifth of all steps
double learning_rate(const TrainConfig& config, int64_t step);

// Steps that show a schedule's shape, ascending: the quarters of the warm-up, then 5, 10, 30, 50, 80 and
// 100 % of all steps.
std::vector<int64_t> schedule_steps(const TrainConfig& config);
// "=" for every whole part of the peak rate that a step has, `width` parts being the peak.
std::string schedule_bar(const TrainConfig& config, int64_t step, int width);

// Steps until the run ends or stops.
int64_t planned_steps(const TrainConfig& config);
// Returns how often an action happens that is due every `every` steps and after the last step; 0 if `every`
// is 0.
int64_t times_due(int64_t steps, int64_t every);

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

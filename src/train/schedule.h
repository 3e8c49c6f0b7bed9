#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Returns the learning rate of a step, counted from 0. Linear warm-up from 0 over `warmup` steps, then
//   cosine:   min + (lr - min) (1 + cos(pi x)) / 2, where x is the completed share of the steps after warm-up
//   linear:   a straight line to min
//   constant: lr
//   wsd:      lr, then a straight line to min over the last fifth of all steps
double learning_rate(const TrainConfig& config, int64_t step);

// Returns steps that show the shape of a schedule, in ascending order: the quarters of the warm-up, then 5,
// 10, 30, 50, 80 and 100 % of all steps.
std::vector<int64_t> schedule_steps(const TrainConfig& config);
// Returns a bar of "=" whose length is proportional to the learning rate of a step; the peak has `width`.
std::string schedule_bar(const TrainConfig& config, int64_t step, int width);

// Returns the number of steps until the run ends or reaches stop_after.
int64_t planned_steps(const TrainConfig& config);
// Returns how often an action runs that is due every `every` steps and after the last step; 0 if `every` is
// 0.
int64_t times_due(int64_t steps, int64_t every);

// Cost of evaluation. An evaluated token costs a forward pass, a third of the cost of a trained token.

// The maximum share of a run spent on evaluation, if the config does not set the interval.
inline constexpr double kEvaluationShare = 0.05;

// Fills in eval_every and eval_batches if they are not set (-1), as a function of `steps` only: up to 20
// evaluations of up to 50 batches, limited to kEvaluationShare of the run; at least one batch at the end.
void complete_rhythm(TrainConfig& config);

// Returns the number of evaluations of the run, including the one before its first step.
int64_t evaluations(const TrainConfig& config, int64_t steps);
// Returns the total batches of these evaluations, of one text or both.
int64_t evaluated_batches(const TrainConfig& config, int64_t steps);
// Returns the share of the run's FLOPs spent on evaluation, from 0 to 1.
double evaluation_share(const TrainConfig& config);

}  // namespace gpt

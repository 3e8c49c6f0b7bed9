#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Returns the learning rate of a step, counted from 0. The learning rate rises linearly from 0 during the
// first `warmup` steps. After the warm-up, the learning rate depends on `schedule`:
//   cosine:   min + (lr - min) (1 + cos(pi x)) / 2, where x is the completed fraction of the decay phase
//   linear:   decreases linearly from lr to min at the last step
//   constant: constant at lr
//   wsd:      constant at lr, then decreases linearly to min over the last fifth of all steps
double learning_rate(const TrainConfig& config, int64_t step);

// Returns selected steps that show the shape of a schedule, in ascending order: the quarters of the warm-up,
// then 5, 10, 30, 50, 80 and 100 % of all steps.
std::vector<int64_t> schedule_steps(const TrainConfig& config);
// Returns a bar of "=" characters whose length is proportional to the learning rate of a step. The peak
// learning rate has `width` characters.
std::string schedule_bar(const TrainConfig& config, int64_t step, int width);

// Returns the number of steps until the run ends or reaches `stop_after`.
int64_t planned_steps(const TrainConfig& config);
// Returns the number of times that a periodic action runs in `steps` steps. The action runs after every
// `every` steps and after the last step. Returns 0 if `every` is 0.
int64_t times_due(int64_t steps, int64_t every);

// The functions below compute the cost of evaluation. Evaluating a token costs a forward pass, which is a
// third of the cost of training on a token.

// Maximum fraction of a run that is spent on evaluation if the config does not set the evaluation interval.
inline constexpr double kEvaluationShare = 0.05;

// Sets `eval_every` and `eval_batches` if they are not set (-1). The values depend only on `steps`. They
// allow up to 20 evaluations of up to 50 batches each, as long as evaluation takes at most kEvaluationShare
// of the run. At the end of the run, at least one batch is evaluated.
void complete_rhythm(TrainConfig& config);

// Returns the number of evaluations in the first `steps` steps. Includes the evaluation before the first
// step, if there is one.
int64_t evaluations(const TrainConfig& config, int64_t steps);
// Returns the total number of batches in the evaluations of the first `steps` steps. If the training text is
// evaluated too, its batches are included.
int64_t evaluated_batches(const TrainConfig& config, int64_t steps);
// Returns the fraction of the run's FLOPs that is spent on evaluation, from 0 to 1.
double evaluation_share(const TrainConfig& config);

}  // namespace gpt

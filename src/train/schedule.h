#pragma once

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

}  // namespace gpt

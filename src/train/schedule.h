#pragma once

#include "train/train_config.h"

namespace gpt {

// The learning rate of a step, counted from 0. Linear warm-up from 0 over `warmup` steps, then
//   cosine:   min + (lr - min) (1 + cos(pi x)) / 2, x the share of the remaining steps done
//   linear:   a straight line to min
//   constant: lr
//   wsd:      lr, then a straight line to min over the last fifth of all steps
double learning_rate(const TrainConfig& config, int64_t step);

}  // namespace gpt

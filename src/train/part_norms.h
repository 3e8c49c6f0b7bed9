#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/train_step.h"

namespace gpt {

using NamedValues = std::vector<std::pair<std::string, double>>;

// Returns the gradient norm of each part of the model (each layer, the embeddings, the final norm, the head)
// before clipping, named "grad_norm/block 0", ... Reads all gradients once, on one thread.
NamedValues gradient_norms(const TrainStep& step);

// Returns the norm of the last update divided by the norm of the weights, for each part of the model:
// "update_ratio/block 0", ... A ratio of about 1/1000 per step is usual (Karpathy, "Zero to Hero" lecture 4).
NamedValues update_ratios(const TrainStep& step);

}  // namespace gpt

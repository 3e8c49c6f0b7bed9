#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/train_step.h"

namespace gpt {

using NamedValues = std::vector<std::pair<std::string, double>>;

// For every part of the model (each block, the embeddings, the final norm, the head) the norm of its
// gradient: "grad_norm/block 0", ... One pass over all gradients on one thread; before clipping.
NamedValues gradient_norms(const TrainStep& step);

// And that of the last update relative to its weights: "update_ratio/block 0", ... About 1/1000 per step is
// usual (Karpathy, "Zero to Hero" lecture 4).
NamedValues update_ratios(const TrainStep& step);

}  // namespace gpt

#pragma once

#include "model/params.h"
#include "report/metrics.h"
#include "train/optimizer.h"

namespace gpt {

// For every part of the model (each block, the embeddings, the final norm, the head) the norm of its gradient
// and that of AdamW's last update relative to its weights: "grad_norm/block 0", "update_ratio/block 0", ...
// About 1/1000 per step is usual for the ratio (Karpathy, "Zero to Hero" lecture 4). grads: of the last step,
// times loss_scale. One pass over all parameters on one thread; step t counts updates from 1.
MetricRecord part_norms(const ParamTable& table, const ParamBuffer& weights, const ParamBuffer& grads,
                        const Optimizer& optimizer, double lr, double loss_scale, int64_t t);

}  // namespace gpt

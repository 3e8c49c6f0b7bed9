#pragma once

#include "model/params.h"
#include "report/metrics.h"
#include "train/optimizer.h"

namespace gpt {

// For every part of the model (each block, the embeddings, the final norm, the head) the norm of its
// gradient: "grad_norm/block 0", ... One pass over all gradients on one thread; these are times loss_scale.
MetricRecord gradient_norms(const ParamTable& table, const ParamBuffer& grads, double loss_scale);

// And that of AdamW's last update relative to its weights: "update_ratio/block 0", ... About 1/1000 per step
// is usual (Karpathy, "Zero to Hero" lecture 4). Step t counts updates from 1.
MetricRecord update_ratios(const ParamTable& table, const ParamBuffer& weights, const Optimizer& optimizer,
                           double lr, int64_t t);

}  // namespace gpt

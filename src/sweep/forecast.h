#pragma once

#include <string>

#include "sweep/loss_law.h"
#include "train/run_plan.h"

namespace gpt {

// The law that a sweep left behind: its folder, or the fit.json in it. Throws Error naming the file, what was
// expected and what was found.
LossFit read_loss_fit(const std::string& path);

// The loss that a law gives for a planned run, and the size for which it gives the lowest with the same
// operations. Warns where the run lies outside what was measured, and where the fit itself has doubts. The
// law holds for the text and the tokenizer of its sweep.
LossForecast forecast_loss(const LossFit& fit, const RunPlan& plan);

}  // namespace gpt

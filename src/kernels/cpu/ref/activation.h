#pragma once

#include "kernels/ops.h"

namespace gpt::ref {

// Return an activation and its derivative at x.
double act_value(Activation act, double x);
double act_slope(Activation act, double x);

}  // namespace gpt::ref

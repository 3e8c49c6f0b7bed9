#pragma once

#include "kernels/ops.h"

namespace gpt::ref {

// Return the value and the derivative of an activation function at x.
double act_value(Activation act, double x);
double act_slope(Activation act, double x);

}  // namespace gpt::ref

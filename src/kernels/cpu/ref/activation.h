#pragma once

#include "kernels/ops.h"

namespace gpt::ref {

// An activation and its derivative at x; of swiglu: silu, which is applied to the gate.
double act_value(Act act, double x);
double act_slope(Act act, double x);

}  // namespace gpt::ref

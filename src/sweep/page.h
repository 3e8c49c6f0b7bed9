#pragma once

#include <string>

#include "report/chart.h"
#include "report/table.h"
#include "sweep/findings.h"

namespace gpt {

// Charts the best loss of each model size, together with the fitted law. There is one line per budget, or
// with a single budget, one line per number of layers. If all models have about the same size and differ in a
// single numeric key (--iso-params), the chart shows the loss for each value of the key.
Chart size_chart(const Sweep& sweep, const Findings& findings);
// Charts the validation losses of all runs against the FLOPs spent, and the lowest loss reached with each
// number of FLOPs.
Chart flops_chart(const Sweep& sweep);

TextTable result_table(const Sweep& sweep, const Findings& findings);  // best run first, failed runs last

// Returns the self-contained HTML page of the sweep.
std::string sweep_page(const Sweep& sweep, const Findings& findings);

}  // namespace gpt

#pragma once

#include <string>

#include "report/chart.h"
#include "report/table.h"
#include "sweep/findings.h"

namespace gpt {

// Returns a chart of the best loss for each model size, together with the fitted law. With several budgets,
// the chart has one line per budget. With a single budget, it has one line per number of layers. If all
// models have about the same size and differ in a single numeric key (--iso-params), the chart shows the loss
// for each value of the key.
Chart size_chart(const Sweep& sweep, const Findings& findings);
// Returns a chart of the validation losses of all runs against the FLOPs spent. The chart also shows the
// lowest loss for each number of FLOPs.
Chart flops_chart(const Sweep& sweep);

TextTable result_table(const Sweep& sweep, const Findings& findings);  // best run first, failed runs last

// Returns the self-contained HTML page of the sweep.
std::string sweep_page(const Sweep& sweep, const Findings& findings);

}  // namespace gpt

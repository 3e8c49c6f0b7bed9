#pragma once

#include <string>

#include "report/chart.h"
#include "report/table.h"
#include "sweep/findings.h"

namespace gpt {

// Best loss of every size, one line per budget (of one budget: per depth, where depths differ), with the law.
// Where models of about one size differ in one number (--iso-params), of every value of that.
Chart size_chart(const Sweep& sweep, const Findings& findings);
// Every run's validations against the FLOPs spent, and the lowest loss reached for so many.
Chart flops_chart(const Sweep& sweep);

TextTable result_table(const Sweep& sweep, const Findings& findings);  // best first, failed runs last

// The self-contained page.
std::string sweep_page(const Sweep& sweep, const Findings& findings);

}  // namespace gpt

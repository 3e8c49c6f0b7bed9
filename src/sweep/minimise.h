#pragma once

#include <functional>
#include <vector>

namespace gpt {

using Objective = std::function<double(const std::vector<double>&)>;

// The minimum of a function of a few variables near `start`, by the simplex method of Nelder and Mead (1965),
// started afresh from its own result until that no longer helps. `scale` is the size of the first steps. A
// value that is not finite counts as very bad.
std::vector<double> minimise(const Objective& f, std::vector<double> start, double scale);

}  // namespace gpt

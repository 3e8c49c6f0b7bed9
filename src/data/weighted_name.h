#pragma once

#include <optional>
#include <string>

namespace gpt {

// The largest share that an entry can have: sums and products of such weights stay finite.
inline constexpr double kMostWeight = 1e12;

// An entry of --data: a file, a folder or a name, and its share among the entries.
struct WeightedName {
  std::string name;
  std::optional<double> weight = {};
};

// Splits "NAME=WEIGHT". An entry without "=" is all name, and so is one that exists as a path. Throws
// invalid_argument unless the weight is a number above 0 and below kMostWeight.
WeightedName parse_weighted_name(const std::string& entry);

}  // namespace gpt

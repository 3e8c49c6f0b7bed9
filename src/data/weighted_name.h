#pragma once

#include <optional>
#include <string>

namespace gpt {

// Upper limit for the weight of an entry. Sums and products of smaller weights stay finite.
inline constexpr double kMostWeight = 1e12;

// An entry of --data: a file, a folder or the name of a dataset, with its weight relative to the other
// entries.
struct WeightedName {
  std::string name;
  std::optional<double> weight = {};
};

// Parses "NAME=WEIGHT". An entry is only a name, without a weight, if it has no "=" or if a file or folder
// with the name of the whole entry exists. Throws invalid_argument unless the weight is a number above 0 and
// below kMostWeight.
WeightedName parse_weighted_name(const std::string& entry);

}  // namespace gpt

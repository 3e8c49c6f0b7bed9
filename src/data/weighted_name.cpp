#include "data/weighted_name.h"

#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"

namespace gpt {

WeightedName parse_weighted_name(const std::string& entry) {
  const size_t equals = entry.rfind('=');
  if (equals == std::string::npos || equals == 0 || path_exists(entry)) return {entry};
  const auto weight = parse_number<double>(std::string_view(entry).substr(equals + 1));
  if (!weight || !(*weight > 0 && *weight < kMostWeight))
    fail_usage("data \"{}\": expected NAME=WEIGHT with a positive weight below {:g}", entry, kMostWeight);
  return {entry.substr(0, equals), weight};
}

}  // namespace gpt

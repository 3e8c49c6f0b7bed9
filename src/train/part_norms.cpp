#include "train/part_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "tensor/device.h"

namespace gpt {
namespace {

// Returns the entry for the part of the model that contains a parameter. If the list has no such entry, adds
// one.
template <class Entry>
Entry& entry_of(std::vector<Entry>& all, const ParamSpec& spec) {
  const std::string part =
      spec.layer >= 0 ? fmt::format("block {}", spec.layer) : component_label(spec.component);
  Entry* const found = find_by(all, &Entry::part, part);
  return found == nullptr ? all.emplace_back(Entry{.part = part}) : *found;
}

}  // namespace

NamedValues gradient_norms(const TrainStep& step) {
  struct Part {
    std::string part;
    double squares = 0;
  };
  const ParamTable& table = step.model().table;
  const ParamLayout layout(table);
  std::vector<Part> all;
  std::vector<int> ids;
  std::vector<ElementRange> ranges;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    entry_of(all, table[id]);
    const int64_t at = layout.offset[static_cast<size_t>(id)];
    for (const ElementRange& range : step.own_ranges(id)) {
      ids.push_back(id);
      ranges.push_back({at + range.begin, at + range.end});
    }
  }
  const std::vector<double> squares = step.range_squares(ranges);
  for (size_t i = 0; i < ids.size(); ++i)
    entry_of(all, table[ids[i]]).squares += squares[i];
  for (Part& part : all)
    part.squares = step.sum_over_processes(part.squares);
  return transformed(all, [&](const Part& p) -> NamedValues::value_type {
    return {"grad_norm/" + p.part, std::sqrt(p.squares) / step.state().loss_scale};
  });
}

NamedValues update_ratios(const TrainStep& step) {
  struct Part {
    std::string part;
    UpdateSquares sums;
  };
  const ParamTable& table = step.model().table;
  std::vector<Part> all;
  const std::vector<UpdateSquares> last = step.last_update();
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    const UpdateSquares& own = last[static_cast<size_t>(id)];
    UpdateSquares& sums = entry_of(all, table[id]).sums;
    sums.update += own.update;
    sums.weight += own.weight;
  }
  NamedValues record;
  for (auto& [part, sums] : all) {
    sums.update = step.sum_over_processes(sums.update);
    sums.weight = step.sum_over_processes(sums.weight);
    if (sums.weight > 0) record.emplace_back("update_ratio/" + part, std::sqrt(sums.update / sums.weight));
  }
  return record;
}

}  // namespace gpt

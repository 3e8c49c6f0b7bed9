#include "train/part_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "tensor/memory.h"

namespace gpt {
namespace {

// The entry of the part that a parameter belongs to.
template <class Entry>
Entry& entry_of(std::vector<Entry>& all, const ParamSpec& spec) {
  const std::string part =
      spec.layer >= 0 ? fmt::format("block {}", spec.layer) : component_label(spec.component);
  Entry* const found = find_by(all, &Entry::part, part);
  return found == nullptr ? all.emplace_back(Entry{.part = part}) : *found;
}

constexpr int64_t kRun = 1024;  // summed in fp32, the runs in fp64

double sum_of_squares(const TensorView& g, const ElementRange& range) {
  double sum = 0;
  const MappedView access(g);
  const float* p = access->as<float>();
  for (int64_t begin = range.begin; begin < range.end; begin += kRun) {
    float run = 0;
    for (int64_t i = begin; i < std::min(begin + kRun, range.end); ++i)
      run += p[i] * p[i];
    sum += double{run};
  }
  return sum;
}

}  // namespace

MetricRecord gradient_norms(const TrainStep& step) {
  struct Part {
    std::string part;
    double squares = 0;
  };
  const ParamTable& table = step.model().table;
  std::vector<Part> all;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    double& squares = entry_of(all, table[id]).squares;
    for (const ElementRange& range : step.own_ranges(id))
      squares += sum_of_squares(step.grads()[id], range);
  }
  for (Part& part : all)
    part.squares = step.sum_over_processes(part.squares);
  return transformed(all, [&](const Part& p) -> MetricRecord::value_type {
    return {"grad_norm/" + p.part, std::sqrt(p.squares) / step.state().loss_scale};
  });
}

MetricRecord update_ratios(const TrainStep& step) {
  struct Part {
    std::string part;
    UpdateSquares sums;
  };
  const ParamTable& table = step.model().table;
  std::vector<Part> all;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    const UpdateSquares own =
        step.optimizer().last_update(id, step.weights()[id], step.optimizer_state(), step.state());
    UpdateSquares& sums = entry_of(all, table[id]).sums;
    sums.update += own.update;
    sums.weight += own.weight;
  }
  MetricRecord record;
  for (auto& [part, sums] : all) {
    sums.update = step.sum_over_processes(sums.update);
    sums.weight = step.sum_over_processes(sums.weight);
    if (sums.weight > 0) record.emplace_back("update_ratio/" + part, std::sqrt(sums.update / sums.weight));
  }
  return record;
}

}  // namespace gpt

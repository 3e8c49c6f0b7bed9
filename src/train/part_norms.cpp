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

double sum_of_squares(const TensorView& g) {
  double sum = 0;
  const HostAccess access(g);
  const float* p = access->as<float>();
  for (int64_t begin = 0; begin < g.size(); begin += kRun) {
    float run = 0;
    for (int64_t i = begin; i < std::min(begin + kRun, g.size()); ++i)
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
    if (table[id].trainable) entry_of(all, table[id]).squares += sum_of_squares(step.grads()[id]);
  }
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
  for (const auto& [part, sums] : all) {
    if (sums.weight > 0) record.emplace_back("update_ratio/" + part, std::sqrt(sums.update / sums.weight));
  }
  return record;
}

}  // namespace gpt

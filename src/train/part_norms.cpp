#include "train/part_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

struct Sums {
  std::string part;
  double update = 0, weight = 0;  // of squares
};

std::string part_name(const ParamSpec& spec) {
  if (spec.layer >= 0) return fmt::format("block {}", spec.layer);
  switch (spec.component) {
    case Component::token_embedding:
      return "token embedding";
    case Component::position_embedding:
      return "position embedding";
    case Component::head:
      return "head";
    default:
      return "final norm";
  }
}

// The entry of the part that a parameter belongs to.
template <class Entry>
Entry& entry_of(std::vector<Entry>& all, const ParamSpec& spec) {
  const std::string part = part_name(spec);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Entry& e) { return e.part == part; });
  return found == all.end() ? all.emplace_back(Entry{.part = part}) : *found;
}

constexpr int64_t kRun = 1024;  // summed in fp32, the runs in fp64

double sum_of_squares(const TensorView& g) {
  double sum = 0;
  const float* p = g.as<float>();
  for (int64_t begin = 0; begin < g.size(); begin += kRun) {
    float run = 0;
    for (int64_t i = begin; i < std::min(begin + kRun, g.size()); ++i)
      run += p[i] * p[i];
    sum += double{run};
  }
  return sum;
}

// What AdamW does to a parameter at step t, from its moments after that step.
void add_tensor(Sums& sums, const TensorView& w, const TensorView& m, const TensorView& v,
                const AdamWSettings& s, double lr, double decay, int64_t t) {
  const auto correct1 = static_cast<float>(1 / (1 - std::pow(s.beta1, t)));
  const auto correct2 = static_cast<float>(1 / (1 - std::pow(s.beta2, t)));
  const auto eps = static_cast<float>(s.eps), rate = static_cast<float>(lr), pull = static_cast<float>(decay);
  const float *pw = w.as<float>(), *pm = m.as<float>(), *pv = v.as<float>();
  for (int64_t begin = 0; begin < w.size(); begin += kRun) {
    float update = 0, weight = 0;
    for (int64_t i = begin; i < std::min(begin + kRun, w.size()); ++i) {
      const float step = rate * (pm[i] * correct1 / (std::sqrt(pv[i] * correct2) + eps) + pull * pw[i]);
      update += step * step;
      weight += pw[i] * pw[i];
    }
    sums.update += double{update};
    sums.weight += double{weight};
  }
}

}  // namespace

MetricRecord gradient_norms(const ParamTable& table, const ParamBuffer& grads, double loss_scale) {
  struct Part {
    std::string part;
    double squares = 0;
  };
  std::vector<Part> all;
  for (int id = 0; id < table.count(); ++id)
    entry_of(all, table[id]).squares += sum_of_squares(grads[id]);
  MetricRecord record;
  for (const Part& p : all)
    record.emplace_back("grad_norm/" + p.part, std::sqrt(p.squares) / loss_scale);
  return record;
}

MetricRecord update_ratios(const ParamTable& table, const ParamBuffer& weights, const Optimizer& optimizer,
                           double lr, int64_t t) {
  std::vector<Sums> all;
  const AdamWSettings& settings = optimizer.settings();
  for (int id = 0; id < table.count(); ++id) {
    add_tensor(entry_of(all, table[id]), weights[id], optimizer.m()[id], optimizer.v()[id], settings, lr,
               table[id].decay ? settings.weight_decay : 0, t);
  }
  MetricRecord record;
  for (const Sums& s : all) {
    if (s.weight > 0) record.emplace_back("update_ratio/" + s.part, std::sqrt(s.update / s.weight));
  }
  return record;
}

}  // namespace gpt

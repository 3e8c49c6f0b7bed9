#include "sweep/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/format.h"
#include "base/ranges.h"

namespace gpt {
namespace {

constexpr double kEqualFlops = 0.01;  // budgets whose FLOPs differ by at most this fraction count as equal

using GroupKey = std::pair<double, SweepPoint>;  // FLOP budget and values of the swept keys

struct Group {
  size_t run = 0;
  std::vector<double> losses;
  double mean() const {
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  }
};

std::map<GroupKey, Group> groups_of(const Sweep& sweep) {
  std::map<GroupKey, Group> groups;
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    if (sweep.results[i].state != SweepResult::State::done) continue;
    Group& group = groups[{sweep.runs[i].budget, sweep.runs[i].point}];
    group.run = i;
    group.losses.push_back(sweep.results[i].loss);
  }
  return groups;
}

std::optional<double> noise_of(const std::map<GroupKey, Group>& groups) {
  double squares = 0;
  size_t freedom = 0;
  for (const auto& [key, group] : groups) {
    const double mean = group.mean();
    for (const double loss : group.losses)
      squares += (loss - mean) * (loss - mean);
    freedom += group.losses.size() - 1;
  }
  if (freedom == 0) return {};
  return std::sqrt(squares / static_cast<double>(freedom));
}

// Groups the mean losses by budget and all values except the value of `key`, and then by the value of `key`.
// If several learning rates were swept, only the loss with the best learning rate is used.
std::map<GroupKey, std::map<std::string, double>> by_value(const std::map<GroupKey, Group>& groups,
                                                           const std::string& key) {
  std::map<GroupKey, std::map<std::string, double>> out;
  for (const auto& [place, group] : groups) {
    GroupKey rest = place;
    const auto found = rest.second.find(key);
    if (found == rest.second.end()) continue;
    const std::string value = found->second;
    rest.second.erase(key);
    if (key != "lr") rest.second.erase("lr");
    const auto [entry, is_new] = out[rest].emplace(value, group.mean());
    if (!is_new) entry->second = std::min(entry->second, group.mean());
  }
  return out;
}

struct Comparison {
  double sum = 0, low = 1e300, high = -1e300;
  int pairs = 0;
};

// Describes what the compared runs have in common: equal steps or similar FLOPs.
std::string basis_of(const Sweep& sweep, double difference) {
  if (!(sweep.runs.front().budget > 0)) return " after equal steps";
  if (difference <= kEqualFlops) return " at equal FLOPs";
  return fmt::format(" at FLOPs that differ by up to {}", format_percent(difference));
}

std::string sentence(const std::string& key, const std::string& a, const std::string& b, const Comparison& c,
                     const std::string& basis, const std::optional<double>& noise, bool many_lr) {
  const double mean = c.sum / c.pairs;
  const bool a_wins = mean < 0;
  std::string text =
      fmt::format("{} = {} beats {} by {:.4f} nats", key, a_wins ? a : b, a_wins ? b : a, std::abs(mean));
  text += basis;
  if (many_lr && key != "lr") text += ", each at its best lr";
  if (c.pairs > 1) {
    const double low = a_wins ? -c.high : c.low, high = a_wins ? -c.low : c.high;
    text += fmt::format(" (mean of {} pairs, from {:+.4f} to {:+.4f})", c.pairs, low, high);
  }
  if (!noise) return text + "; only one seed, so the noise is unknown";
  text += fmt::format("; the standard deviation of seeds is {:.4f}", *noise);
  if (std::abs(mean) < 2 * *noise) text += ", so the difference is not significant";
  return text;
}

// Compares each value of a key with the value of the best run.
void compare_key(const std::string& key, const std::map<GroupKey, Group>& groups, const Sweep& sweep,
                 bool many_lr, Findings& findings) {
  std::map<std::pair<std::string, std::string>, Comparison> pairs;
  for (const auto& [rest, losses] : by_value(groups, key)) {
    for (auto a = losses.begin(); a != losses.end(); ++a) {
      for (auto b = std::next(a); b != losses.end(); ++b) {
        Comparison& c = pairs[{a->first, b->first}];
        const double difference = a->second - b->second;
        c.sum += difference;
        c.low = std::min(c.low, difference);
        c.high = std::max(c.high, difference);
        ++c.pairs;
      }
    }
  }
  if (findings.means.empty()) return;
  const std::string& best = sweep.runs[findings.means.front().run].point.at(key);
  const std::string basis = basis_of(sweep, findings.flops_difference);
  for (const auto& [values, c] : pairs) {
    if (values.first != best && values.second != best) continue;
    findings.sentences.push_back(
        sentence(key, values.first, values.second, c, basis, findings.noise, many_lr));
  }
}

// Returns the best loss for each combination of model size and number of tokens.
std::vector<LossPoint> fit_points(const Sweep& sweep, const std::vector<SweepMean>& means) {
  std::map<std::pair<double, double>, double> best;
  for (const SweepMean& mean : means) {
    const SweepRun& run = sweep.runs[mean.run];
    const auto [entry, is_new] = best.emplace(std::pair{run.parameters, run.tokens}, mean.loss);
    if (!is_new) entry->second = std::min(entry->second, mean.loss);
  }
  return transformed(best, [](const auto& point) {
    return LossPoint{point.first.first, point.first.second, point.second};
  });
}

std::string describe_fit(const LossFit& fit) {
  return fmt::format(
      "loss = {:.4f}{} + {:.4g} / parameters^{:.3f} + {:.4g} / tokens^{:.3f}; {} points, residuals {:.2f} % "
      "(RMS) and {:.2f} % (maximum); if any one point is left out, the exponents are from {:.3f} to {:.3f} "
      "(parameters) and from {:.3f} to {:.3f} (tokens). {}",
      fit.law.floor, fit.floor_known ? " (known entropy)" : "", fit.law.A, fit.law.a, fit.law.B, fit.law.b,
      fit.points.size(), 100 * fit.rms_residual, 100 * fit.worst_residual, fit.a.low, fit.a.high, fit.b.low,
      fit.b.high,
      fit.doubts.empty() ? "Reliable for budgets near the measured budgets."
                         : "Unreliable outside the measured points: " + fit.doubts + ".");
}

void recommend(const Sweep& sweep, Findings& findings) {
  if (findings.means.empty()) return;
  double budget = 0;
  for (const SweepMean& mean : findings.means)
    budget = std::max(budget, sweep.runs[mean.run].budget);
  for (const SweepMean& mean : findings.means) {
    const SweepRun& run = sweep.runs[mean.run];
    // With several budgets, the recommendation is for the largest budget. Runs with equal steps have no
    // budget, and their FLOPs differ.
    if (run.budget < budget) continue;
    const std::string spent =
        run.budget > 0
            ? fmt::format("for{} {} FLOPs", findings.flops_difference > kEqualFlops ? " about" : "",
                          format_count(run.budget))
            : std::string("for equal steps");
    std::string text = fmt::format("Recommended {}: {} ({}, {} parameters, {} tokens, loss {:.4f})", spent,
                                   run_name(run.point, 0, 0, false, false), shape_name(run),
                                   format_count(run.parameters), format_count(run.tokens), mean.loss);
    if (findings.fit) {
      const double per_parameter = run.flops_per_token / run.parameters;
      const double best = findings.fit->law.best_parameters(run.flops, per_parameter);
      const Extent& seen = findings.fit->parameters;
      if (!findings.fit->doubts.empty()) {
        text += "; the fitted law is too uncertain to predict the best size";
      } else if (best < seen.low || best > seen.high) {
        text += fmt::format(
            "; the fitted law predicts a best size {} the measured range, so extend the sweep in that "
            "direction",
            best < seen.low ? "below" : "above");
      } else {
        text += fmt::format("; the fitted law predicts a best size of {} parameters", format_count(best));
      }
    }
    findings.sentences.push_back(text);
    return;
  }
}

}  // namespace

std::map<std::string, std::set<std::string>> swept_keys(const Sweep& sweep) {
  std::map<std::string, std::set<std::string>> keys;
  for (const SweepRun& run : sweep.runs) {
    for (const auto& [key, value] : run.point)
      keys[key].insert(value);
  }
  return keys;
}

double flops_difference(const std::vector<SweepRun>& runs) {
  std::map<double, std::pair<double, double>> ranges;  // range of FLOPs for each budget
  for (const SweepRun& run : runs) {
    if (!(run.budget > 0)) continue;
    auto& [low, high] = ranges.emplace(run.budget, std::pair{run.flops, run.flops}).first->second;
    low = std::min(low, run.flops);
    high = std::max(high, run.flops);
  }
  double difference = 0;
  for (const auto& [budget, range] : ranges)
    difference = std::max(difference, range.second / range.first - 1);
  return difference;
}

Findings find_out(const Sweep& sweep) {
  Findings findings;
  findings.flops_difference = flops_difference(sweep.runs);
  const std::map<GroupKey, Group> groups = groups_of(sweep);
  for (const auto& [key, group] : groups)
    findings.means.push_back({group.run, group.mean(), static_cast<int>(group.losses.size())});
  std::ranges::stable_sort(findings.means, {}, &SweepMean::loss);
  findings.noise = noise_of(groups);
  const std::map<std::string, std::set<std::string>> keys = swept_keys(sweep);
  const bool many_lr = keys.count("lr") > 0 && keys.at("lr").size() > 1;
  for (const auto& [key, values] : keys)
    compare_key(key, groups, sweep, many_lr, findings);
  const std::vector<LossPoint> points = fit_points(sweep, findings.means);
  findings.fit = fit_loss_law(points, sweep.floor);
  findings.fit_note = findings.fit ? describe_fit(*findings.fit)
                                   : fmt::format(
                                         "No law was fitted: {} different (parameters, tokens) points, but "
                                         "{} are required, and all losses must be above the entropy floor.",
                                         points.size(), kFewestFitPoints);
  recommend(sweep, findings);
  return findings;
}

nlohmann::json findings_json(const Sweep& sweep, const Findings& findings) {
  nlohmann::json runs = nlohmann::json::array();
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    const SweepResult& result = sweep.results[i];
    nlohmann::json entry = run_json(sweep.runs[i]);
    entry["state"] = result.state == SweepResult::State::done     ? "done"
                     : result.state == SweepResult::State::failed ? "failed"
                                                                  : "waiting";
    if (result.state == SweepResult::State::done) {
      entry["val_loss"] = result.loss;
      entry["seconds"] = result.seconds;
    }
    if (!result.error.empty()) entry["error"] = result.error;
    runs.push_back(std::move(entry));
  }
  nlohmann::json out = {{"version", 1},
                        {"command_line", sweep.command_line},
                        {"runs", std::move(runs)},
                        {"flops_difference", findings.flops_difference},
                        {"findings", findings.sentences},
                        {"fit_note", findings.fit_note}};
  if (sweep.floor) out["floor"] = *sweep.floor;
  if (findings.noise) out["seed_noise"] = *findings.noise;
  return out;
}

}  // namespace gpt

#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sweep/loss_law.h"
#include "sweep/plan.h"

namespace gpt {

struct CurvePoint {
  double flops = 0, loss = 0;
};

// What became of a run.
struct SweepResult {
  enum class State : uint8_t { waiting, done, failed };
  State state = State::waiting;
  double loss = 0;                // validation, after the last step; nats per token
  double seconds = 0;             // of training
  std::vector<CurvePoint> curve;  // all validations
  std::string error;              // of a failed one
};

struct Sweep {
  std::vector<SweepRun> runs;
  std::vector<SweepResult> results;  // of each run
  std::optional<double> floor;       // entropy of the text, nats per token
  std::string command_line;
};

// The mean over the seeds of a point at a budget.
struct SweepMean {
  size_t run = 0;  // one of its runs
  double loss = 0;
  int seeds = 0;
};

// How far the FLOPs of runs of one budget are apart, the largest over all budgets: 0.12 is 12 %. Runs have
// whole steps, so that few of them make no equal FLOPs. 0 for runs of equal steps.
double flops_difference(const std::vector<SweepRun>& runs);

struct Findings {
  std::vector<SweepMean> means;  // of finished points, best first
  std::optional<double> noise;   // standard deviation between seeds, pooled over points
  std::vector<std::string>
      sentences;  // each value of a swept key against the best run's, then the recommendation
  std::optional<LossFit> fit;
  std::string fit_note;  // what the fit says, or why there is none
  double flops_difference = 0;
};

// The swept keys, each with its values.
std::map<std::string, std::set<std::string>> swept_keys(const Sweep& sweep);

Findings find_out(const Sweep& sweep);

nlohmann::json findings_json(const Sweep& sweep, const Findings& findings);

}  // namespace gpt

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

// Stores the result of a run of the sweep.
struct SweepResult {
  enum class State : uint8_t { waiting, done, failed };
  State state = State::waiting;
  double loss = 0;                // validation loss after the last step, in nats per token
  double seconds = 0;             // training time
  std::vector<CurvePoint> curve;  // losses of all evaluations
  std::string error;              // error message of a failed run
};

struct Sweep {
  std::vector<SweepRun> runs;
  std::vector<SweepResult> results;  // one result per run
  std::optional<double> floor;       // entropy of the text in nats per token
  std::string command_line;
};

// Stores the mean loss of one point at one budget. The mean is over the seeds.
struct SweepMean {
  size_t run = 0;  // index of one of the averaged runs
  double loss = 0;
  int seeds = 0;
};

// Returns the largest relative difference between the FLOPs of runs with the same budget: 0.12 means 12 %.
// The FLOPs differ because the number of steps is an integer. Returns 0 for runs with equal steps.
double flops_difference(const std::vector<SweepRun>& runs);

struct Findings {
  std::vector<SweepMean> means;  // one entry per point with finished runs, best first
  std::optional<double> noise;   // standard deviation between seeds, pooled over all points
  // Sentences that compare each value of a swept key with the value of the best run. The last sentence is the
  // recommendation.
  std::vector<std::string> sentences;
  std::optional<LossFit> fit;
  std::string fit_note;  // description of the fit, or the reason why there is none
  double flops_difference = 0;
};

// Returns the swept keys with their values.
std::map<std::string, std::set<std::string>> swept_keys(const Sweep& sweep);

Findings find_out(const Sweep& sweep);

nlohmann::json findings_json(const Sweep& sweep, const Findings& findings);

}  // namespace gpt

#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// A config key and the values that it takes in turn, as texts.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

// "n_layer=2,4,8", or "--n-layer"-like names with dashes. Throws invalid_argument for an unknown key, one
// that cannot be swept (steps, seed: they have flags of their own), no or equal values.
SweepAxis parse_axis(const std::string& text);

using SweepPoint = std::map<std::string, std::string>;  // key -> value

// Every combination, the last axis changing fastest. Throws invalid_argument when there are more than 1,000.
std::vector<SweepPoint> grid_of(const std::vector<SweepAxis>& axes);

// One run of a sweep.
struct SweepRun {
  std::string name;  // of its folder: letters, digits and "-_.+="
  SweepPoint point;  // of the swept keys
  RunConfig config;
  int64_t seed = 1;
  double parameters = 0, flops_per_token = 0;
  double tokens = 0, flops = 0;
  double budget = 0;  // of FLOPs, that all runs of a level share; 0: equal steps instead
};

// Names a run; the budget and the seed are named where there are several.
std::string run_name(const SweepPoint& point, double budget, int64_t seed, bool many_budgets,
                     bool many_seeds);

std::string shape_name(const SweepRun& run);  // "4 layers of 128"

// Steps whose FLOPs come nearest to a budget, at least one.
int64_t steps_for(double budget, double flops_per_token, double tokens_per_step);

// Gives the run a number of steps: counts follow, warm-up becomes at most a tenth, and evaluations an eighth
// of them apart when eval_every is 0.
void set_steps(SweepRun& run, int64_t steps);

// The multiple of `unit` for which a model has nearest to `parameters`; config.d_ff scales with the width.
int64_t width_for(const ModelConfig& config, int64_t parameters, int64_t unit);

// The model with another width, complete; d_ff scales with it.
ModelConfig with_width(ModelConfig config, int64_t width);

// d_ff for a new width, in the proportion of the old ones, a multiple of 8.
int64_t scaled_d_ff(int64_t d_ff, int64_t n_embd, int64_t new_n_embd);

nlohmann::json run_json(const SweepRun& run);
// What the former wrote; throws Error naming `source` and the field.
SweepRun read_run(const nlohmann::json& object, const std::string& source);

}  // namespace gpt

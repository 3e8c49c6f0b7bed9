#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Stores a swept config key and its values, as texts.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

// Parses an axis such as "n_layer=2,4,8". The key may also have the form of a flag, such as "--n-layer".
// Throws invalid_argument if the key is unknown or cannot be swept (steps and seed have their own flags), if
// a value is empty, or if a value occurs twice.
SweepAxis parse_axis(const std::string& text);

using SweepPoint = std::map<std::string, std::string>;  // maps each swept key to its value

// Returns all combinations of the values. The values of the last axis change fastest. Throws invalid_argument
// if there are more than 1,000 combinations.
std::vector<SweepPoint> grid_of(const std::vector<SweepAxis>& axes);

// Describes a run of a sweep.
struct SweepRun {
  std::string name;  // name of the run's folder: letters, digits and "-_.+="
  SweepPoint point;  // values of the swept keys
  RunConfig config;
  int64_t seed = 1;
  double parameters = 0, flops_per_token = 0;
  double tokens = 0, flops = 0;
  double budget = 0;  // FLOP budget, which several runs may share; 0: runs have equal steps instead
};

// Returns the name of a run. The name contains the budget if there are several budgets, and the seed if there
// are several seeds.
std::string run_name(const SweepPoint& point, double budget, int64_t seed, bool many_budgets,
                     bool many_seeds);

std::string shape_name(const SweepRun& run);  // returns a shape such as "4 layers of 128"

// Returns the number of steps whose FLOPs are closest to a budget. Returns at least 1.
int64_t steps_for(double budget, double flops_per_token, double tokens_per_step);

// Sets the number of steps of a run and updates its tokens and FLOPs. Limits the warm-up to a tenth of the
// steps. If eval_every is 0, sets eval_every to an eighth of the steps.
void set_steps(SweepRun& run, int64_t steps);

// Returns a width that is a multiple of `unit`. Among these widths, its number of parameters is closest to
// `parameters`. config.d_ff scales with the width.
int64_t width_for(const ModelConfig& config, int64_t parameters, int64_t unit);

// Returns the completed config of the model with a different width. d_ff scales with the width.
ModelConfig with_width(ModelConfig config, int64_t width);

// Returns d_ff for a new width, rounded to a multiple of 8. The ratio of d_ff to the width stays about the
// same.
int64_t scaled_d_ff(int64_t d_ff, int64_t n_embd, int64_t new_n_embd);

nlohmann::json run_json(const SweepRun& run);
// Reads a run that run_json wrote. Throws Error naming `source` and the field.
SweepRun read_run(const nlohmann::json& object, const std::string& source);

}  // namespace gpt

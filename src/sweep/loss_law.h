#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run/run_plan.h"

namespace gpt {

// Describes a trained model: its parameters, its training tokens, and its validation loss in nats per token.
struct LossPoint {
  double parameters = 0, tokens = 0, loss = 0;
};

// Scaling law L(N, D) = floor + A / N^a + B / D^b for N parameters and D tokens (Hoffmann et al. 2022).
struct LossLaw {
  double floor = 0;
  double A = 0, a = 0, B = 0, b = 0;

  double loss(double parameters, double tokens) const;
  // Returns the number of parameters with the lowest predicted loss for a FLOP budget. A token costs
  // `flops_per_parameter` FLOPs per parameter (about 6), so the budget of a larger model allows fewer tokens.
  double best_parameters(double flops, double flops_per_parameter) const;
};

struct Extent {
  double low = 0, high = 0;
};

// Stores a fitted law and information about its quality.
struct LossFit {
  LossLaw law;
  bool floor_known = false;  // true if the floor was given and not fitted
  std::vector<LossPoint> points;
  double rms_residual = 0;  // residual of the logarithm of the loss: 0.01 means one percent
  double worst_residual = 0;
  Extent a, b;                       // ranges of the exponents when any single point is left out
  Extent parameters, tokens, flops;  // ranges of the measured points; flops is 6 N D
  std::string doubts;                // reasons not to use the law beyond the measured points, or ""
};

inline constexpr size_t kFewestFitPoints = 5;

// Fits the law with the Huber loss (delta 1e-3) on the logarithm of the loss. Runs the fit from many starting
// points and returns the best result. Returns nullopt if there are fewer than five points with different (N,
// D), if a value is not positive, or if a loss is not above a known floor.
std::optional<LossFit> fit_loss_law(const std::vector<LossPoint>& points, std::optional<double> floor);

// Returns the content of fit.json.
nlohmann::json loss_fit_json(const LossFit& fit);

// Reads the law that a sweep saved. `path` is the folder of the sweep or its fit.json. Throws Error naming
// the file, the expected content and the content found.
LossFit read_loss_fit(const std::string& path);

// Predicts the loss of a planned run. Also determines the model size that has the lowest predicted loss with
// the same FLOPs. Adds a warning if the run is outside the measured range or if the fit is unreliable. A law
// only applies to the text and the tokenizer of its sweep.
LossForecast forecast_loss(const LossFit& fit, const RunPlan& plan);

}  // namespace gpt

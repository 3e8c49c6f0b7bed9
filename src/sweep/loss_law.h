#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run/run_plan.h"

namespace gpt {

// What one trained model says: its parameters, the tokens it saw, its validation loss in nats per token.
struct LossPoint {
  double parameters = 0, tokens = 0, loss = 0;
};

// L(N, D) = floor + A / N^a + B / D^b, with N parameters and D tokens (Hoffmann et al. 2022).
struct LossLaw {
  double floor = 0;
  double A = 0, a = 0, B = 0, b = 0;

  double loss(double parameters, double tokens) const;
  // The number of parameters that gives the lowest loss when every token costs `flops_per_parameter`
  // operations per parameter (about 6): a share of the budget goes to size, the rest to tokens.
  double best_parameters(double flops, double flops_per_parameter) const;
};

struct Extent {
  double low = 0, high = 0;
};

// A law with what is known about how good it is.
struct LossFit {
  LossLaw law;
  bool floor_known = false;  // given, not fitted
  std::vector<LossPoint> points;
  double rms_residual = 0;  // of log loss: 0.01 is one percent
  double worst_residual = 0;
  Extent a, b;                       // the exponents when any one point is left out
  Extent parameters, tokens, flops;  // what was measured; flops is 6 N D
  std::string doubts;                // why the law should not be used beyond the measured points, or empty
};

inline constexpr size_t kFewestFitPoints = 5;

// Fits the law: Huber loss (delta 1e-3) on the logarithm of the loss, best of many starts. nullopt with fewer
// than five points of different (N, D), or when a point is not positive or lies below a known floor.
std::optional<LossFit> fit_loss_law(const std::vector<LossPoint>& points, std::optional<double> floor);

// As in fit.json.
nlohmann::json loss_fit_json(const LossFit& fit);

// The law that a sweep left behind: its folder, or the fit.json in it. Throws Error naming the file, what was
// expected and what was found.
LossFit read_loss_fit(const std::string& path);

// The loss that a law gives for a planned run, and the size for which it gives the lowest with the same
// operations. Warns where the run lies outside what was measured, and where the fit itself has doubts. The
// law holds for the text and the tokenizer of its sweep.
LossForecast forecast_loss(const LossFit& fit, const RunPlan& plan);

}  // namespace gpt

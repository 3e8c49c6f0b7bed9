#pragma once

#include <optional>
#include <string>

#include "run/evaluation.h"
#include "run/run_data.h"
#include "run/run_plan.h"

namespace gpt {

// Contains the facts from which the messages before the first step are formatted.
struct RunStart {
  const RunConfig& config;
  const RunData& data;
  const RunPlan& plan;
  std::string out;
  std::optional<int64_t> resumed_at;  // step at which the run was resumed
  std::string resume_command;
};

// Returns five lines: data, model, cost, intervals and folder. Returns a single line if no step is left.
std::string start_lines(const RunStart& start);
// Returns one line for each setting that is likely to be a mistake (advice.h). If the run does not fit into
// memory, also returns a line with this warning.
std::string start_notes(const RunStart& start, bool chosen_tokenizer);
// Returns the details that --verbose prints: the start of the text, all settings, the optimizer, memory and
// machine.
std::string start_details(const RunStart& start, const std::string& optimizer);

// Describes the state of a run at an evaluation.
struct EvalState {
  int64_t step = 0;
  double lr = 0;                     // learning rate of the next step
  std::optional<double> norm = {};   // norm of the newest gradient
  std::optional<double> floor = {};  // entropy of the text in nats per token
  bool best = false;
};
// Returns "step 100: validation loss ...". If there is a training loss, returns "step 100: train ... | val
// ... | lr ... | norm ...".
std::string evaluation_line(const EvalLosses& losses, const EvalState& state);

// Describes the state of a run at its end.
struct RunEnd {
  int64_t step = 0, steps = 0;  // completed steps and configured steps
  bool finished = false;        // true also if the run ended early because of `patience`
  bool interrupted = false;
  double seconds = 0;
  std::optional<double> val_loss;  // the newest validation loss
  int64_t val_step = -1;           // step at which val_loss was computed
  double best_val_loss = 0;
  int64_t best_step = -1;  // -1: the run was never evaluated
  std::optional<WholeLosses> whole = {};
  DType dtype = DType::f32;  // dtype of the run
  int64_t patience = 0;
  std::string out;
  std::string resume_command;
};
// Returns the result of the run, the paths of its files and the suggested next command.
std::string end_lines(const RunEnd& end);

}  // namespace gpt

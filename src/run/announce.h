#pragma once

#include <optional>
#include <string>

#include "run/evaluation.h"
#include "run/run_data.h"
#include "run/run_plan.h"

namespace gpt {

// Input of the messages that a run prints before its first step.
struct RunStart {
  const RunConfig& config;
  const RunData& data;
  const RunPlan& plan;
  std::string out;
  std::optional<int64_t> resumed_at;  // the step at which the run was resumed
  std::string resume_command;
};

// Returns five lines: data, model, cost, intervals, folder; or one line if no step is left.
std::string start_lines(const RunStart& start);
// Returns a line for each likely mistake (advice.h), and a line if the run does not fit into memory.
std::string start_notes(const RunStart& start, bool chosen_tokenizer);
// Returns the details for --verbose: the start of the text, every setting, the optimizer, memory, machine.
std::string start_details(const RunStart& start, const std::string& optimizer);

// The state of a run at an evaluation.
struct EvalState {
  int64_t step = 0;
  double lr = 0;                     // of the next step
  std::optional<double> norm = {};   // of the newest gradient
  std::optional<double> floor = {};  // nats per token
  bool best = false;
};
// Returns "step 100: validation loss ...", or, with a training loss, "step 100: train ... | val ... | lr ...
// | norm ...".
std::string evaluation_line(const EvalLosses& losses, const EvalState& state);

// The state of a run at its end.
struct RunEnd {
  int64_t step = 0, steps = 0;  // completed and configured steps
  bool finished = false;        // true before the last step: out of patience
  bool interrupted = false;
  double seconds = 0;
  std::optional<double> val_loss;  // the newest one
  int64_t val_step = -1;           // the step of val_loss
  double best_val_loss = 0;
  int64_t best_step = -1;  // -1: never evaluated
  std::optional<WholeLosses> whole = {};
  DType dtype = DType::f32;  // of the run
  int64_t patience = 0;
  std::string out;
  std::string resume_command;
};
// Returns the result of the run, the paths of its files, and the suggested next command.
std::string end_lines(const RunEnd& end);

}  // namespace gpt

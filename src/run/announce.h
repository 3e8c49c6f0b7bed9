#pragma once

#include <optional>
#include <string>

#include "run/evaluation.h"
#include "run/run_data.h"
#include "run/run_plan.h"

namespace gpt {

// What a run says of itself before its first step.
struct RunStart {
  const RunConfig& config;
  const RunData& data;
  const RunPlan& plan;
  std::string out;
  std::optional<int64_t> resumed_at;  // the step
  std::string resume_command;
};

// Five lines: data, model, cost, rhythm, folder. One where no step is left to make.
std::string start_lines(const RunStart& start);
// A line for each thing that is likely to be a mistake (advice.h) or does not fit into memory.
std::string start_notes(const RunStart& start, bool chosen_tokenizer);
// For --verbose: the text's beginning, every setting, the optimizer, memory, machine.
std::string start_details(const RunStart& start, const std::string& optimizer);

// How a run stands when it was evaluated.
struct EvalState {
  int64_t step = 0;
  double lr = 0;                     // of the next step
  std::optional<double> norm = {};   // of the newest gradient
  std::optional<double> floor = {};  // nats per token
  bool best = false;
};
// "step 100: validation loss ..."; with a training loss "step 100: train ... | val ... | lr ... | norm ...".
std::string evaluation_line(const EvalLosses& losses, const EvalState& state);

// How a run ended.
struct RunEnd {
  int64_t step = 0, steps = 0;  // done, and wanted
  bool finished = false;        // before all steps: out of patience
  bool interrupted = false;
  double seconds = 0;
  std::optional<double> val_loss;  // the newest one
  int64_t val_step = -1;           // of it
  double best_val_loss = 0;
  int64_t best_step = -1;  // -1: never evaluated
  std::optional<WholeLosses> whole = {};
  DType dtype = DType::f32;  // of the run
  int64_t patience = 0;
  std::string out;
  std::string resume_command;
};
// What became of it, where things are, and what one does next.
std::string end_lines(const RunEnd& end);

}  // namespace gpt

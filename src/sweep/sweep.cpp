#include "sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/format.h"
#include "base/json.h"
#include "bench/workload.h"
#include "distributed/same.h"
#include "io/checkpoint_dir.h"
#include "report/metrics.h"
#include "report/run_charts.h"
#include "report/svg.h"
#include "run/checkpoint.h"
#include "run/data_identity.h"
#include "run/run_data.h"
#include "run/trainer.h"
#include "sweep/made_runs.h"
#include "sweep/page.h"

namespace gpt {
namespace {

std::string run_folder(const std::string& folder, const SweepRun& run) {
  return folder + "/runs/" + run.name;
}

// Returns the number of completed steps in the run's last checkpoint, or -1 if there is no checkpoint.
int64_t checkpoint_step(const std::string& folder) {
  const std::string last = folder + "/last";
  if (!std::filesystem::exists(folder)) return -1;
  recover_directory(last);
  const std::string path = last + "/train_state.json";
  if (!std::filesystem::exists(path)) return -1;
  const nlohmann::json state = read_json_file(path);
  if (!state.is_object() || !state.contains("step") || !state["step"].is_number_integer())
    fail("{}: \"step\" is missing; delete {} to repeat this run", path, folder);
  return state["step"].get<int64_t>();
}

// Reads the result of a run from its metrics. The state is `waiting` unless the run has completed all steps
// and was evaluated after the last step.
SweepResult result_of(const std::string& folder, const SweepRun& run) {
  SweepResult result;
  const int64_t steps = run.config.train.steps;
  if (checkpoint_step(folder) < steps) return result;
  const double per_step = run.flops / static_cast<double>(steps);
  for (const MetricRecord& record : read_metrics(folder + "/metrics.jsonl")) {
    const double step = metric_number(record, kStepKey).value_or(0);
    result.seconds = metric_number(record, "seconds").value_or(result.seconds);
    const auto loss = metric_number(record, kValLossKey);
    if (!loss) continue;
    result.curve.push_back({step * per_step, *loss});
    if (static_cast<int64_t>(step) != steps) continue;
    result.loss = *loss;
    result.state = SweepResult::State::done;
  }
  return result;
}

// Returns the number of threads for a run. 0 means all CPUs.
int64_t threads_of(const SweepRun& run, const Communicator& processes) {
  const int64_t threads = run.config.train.threads;
  return processes.size() > 1 ? thread_count(threads, processes) : threads;
}

void make_run(const SweepRun& run, SweepResult& result, const SweepWay& way, bool& interrupted) {
  const std::string folder = run_folder(way.folder, run);
  const FolderLock lock = FolderLock::of_folder(folder, [](std::string_view) {});
  TrainRequest request;
  request.config = run.config;
  request.out = folder;
  request.kernels = &kernel_table(way.isa);
  request.brief = true;
  request.silent = way.processes->rank() > 0;
  request.resume = checkpoint_step(folder) >= 0;
  request.repeats = !request.resume;
  if (request.resume) request.config = read_run_config(folder + "/config.json");
  request.config.train.threads = threads_of(run, *way.processes);
  try {
    interrupted = run_training(request, way.interrupted).interrupted;
  } catch (const Error& error) {
    const std::string what = error.what();
    if (error.code() == ErrorCode::invalid_argument || !what.starts_with("training stopped at step")) throw;
    result.state = SweepResult::State::failed;
    result.error = what;
    return;
  }
  result = result_of(folder, run);
}

// Returns a key that identifies the data of a run. The key contains the seed only if the run generates
// "tales", because other data do not depend on the seed.
std::string data_key(const SweepRun& run) {
  const TrainConfig& t = run.config.train;
  nlohmann::json key = {t.data, t.val_data, t.val_fraction, t.tokenizer};
  for (const auto* entries : {&t.data, &t.val_data}) {
    for (const std::string& entry : *entries)
      key.push_back(source_identity(entry, t.seed));
  }
  return key.dump();
}

// Throws Error if the data has changed since the finished runs were executed. The remaining runs would not be
// comparable with the finished runs. Reads no data if all runs are finished.
void check_same_data(const Sweep& sweep, const std::string& folder) {
  const auto state_is = [&](SweepResult::State state) {
    return std::ranges::any_of(sweep.results, [&](const SweepResult& r) { return r.state == state; });
  };
  if (!state_is(SweepResult::State::waiting) || !state_is(SweepResult::State::done)) return;
  std::map<std::string, DataIdentity> identities;
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    if (sweep.results[i].state != SweepResult::State::done) continue;
    const SweepRun& run = sweep.runs[i];
    const auto [now, is_new] = identities.try_emplace(data_key(run));
    if (is_new) now->second = identity_of(load_run_data(run.config.train, run.config.model.n_ctx, ""));
    const DataIdentity before = read_run_state(run_folder(folder, run) + "/last").data;
    const std::string difference = data_difference(before, now->second);
    if (difference.empty()) continue;
    fail(
        "cannot continue the sweep: {}: {}; restore the original, or start a new sweep with a different "
        "`out`",
        run_folder(folder, run), difference);
  }
}

}  // namespace

void write_sweep(const std::string& folder, const Sweep& sweep) {
  make_directories(folder);
  const Findings findings = find_out(sweep);
  write_file_atomic(folder + "/sweep.json", findings_json(sweep, findings).dump(1) + "\n");
  if (findings.fit) write_file_atomic(folder + "/fit.json", loss_fit_json(*findings.fit).dump(1) + "\n");
  write_file_atomic(folder + "/sweep.svg", line_chart_svg(size_chart(sweep, findings)));
  write_file_atomic(folder + "/sweep.html", sweep_page(sweep, findings));
}

namespace {

// Executes this process's share of the runs of a sweep, and collects the results of the other processes.
class SharedSweep {
 public:
  SharedSweep(Sweep& sweep, const SweepWay& way)
      : sweep_(sweep), way_(way), processes_(*way.processes), own_(own_runs(sweep, processes_)) {
    if (is_first()) remove_made_runs(way.folder);
    std::string names;  // all ranks have read the sweep when require_same returns
    for (const size_t i : own_runs(sweep, single_process()))
      names += sweep.runs[i].name + " ";
    require_same(processes_, "list of pending runs", names);
    if (is_first()) write_sweep(way.folder, sweep);
  }

  // Returns false if the runs were interrupted.
  bool make_own_runs() {
    for (const size_t i : own_) {
      made_.interrupted = way_.interrupted();
      make(i);
      if (made_.interrupted && sweep_.results[i].state == SweepResult::State::waiting) break;
      made_.interrupted = false;
    }
    made_.ended = true;
    tell();
    return processes_.size() > 1 || !made_.interrupted;
  }

  // Returns false if the runs of any process were interrupted.
  bool wait_for_others() {
    if (processes_.size() == 1) return true;
    constexpr auto kPause = std::chrono::milliseconds(200);
    while (!look()) {
      std::this_thread::sleep_for(kPause);
    }
    barrier(
        processes_,
        "waiting for the other ranks of the sweep");  // all ranks have read the files that are removed next
    if (is_first()) remove_made_runs(way_.folder);
    return !interrupted_;
  }

 private:
  bool is_first() const { return processes_.rank() == 0; }

  void make(size_t i) {
    const SweepRun& run = sweep_.runs[i];
    SweepResult& result = sweep_.results[i];
    way_.note(fmt::format("run {} of {}: {}, {} parameters, {}\n", i + 1, sweep_.runs.size(), run.name,
                          format_count(run.parameters), format_amount(run.config.train.steps, "step")));
    if (!made_.interrupted) make_run(run, result, way_, made_.interrupted);
    if (result.state == SweepResult::State::done) made_.done.push_back(run.name);
    if (result.state == SweepResult::State::failed) made_.failed.emplace_back(run.name, result.error);
    note_result(result);
    tell();
    look();
    if (is_first()) write_sweep(way_.folder, sweep_);
  }

  void note_result(const SweepResult& result) const {
    if (result.state == SweepResult::State::done)
      way_.note(
          fmt::format("  validation loss {:.4f} in {}\n", result.loss, format_duration(result.seconds)));
    if (result.state == SweepResult::State::failed) way_.note("  failed: " + result.error + "\n");
  }

  void tell() const {
    if (processes_.size() > 1) write_made_runs(way_.folder, processes_.rank(), made_);
  }

  // Reads the results that other processes have written since the last call. Returns true if all processes
  // have finished their runs.
  bool look() {
    bool ended = made_.ended, news = false;
    interrupted_ = made_.interrupted;
    for (int rank = 0; rank < processes_.size(); ++rank) {
      if (rank == processes_.rank()) continue;
      const MadeRuns made = read_made_runs(way_.folder, rank);
      ended = ended && made.ended;
      interrupted_ = interrupted_ || made.interrupted;
      for (size_t i = 0; i < sweep_.runs.size(); ++i)
        news = take_over(i, rank, made) || news;
    }
    if (news && is_first()) write_sweep(way_.folder, sweep_);
    return ended;
  }

  // Updates the result of run i if it was pending and the process `rank` has completed the run. Returns true
  // if the result was updated.
  bool take_over(size_t i, int rank, const MadeRuns& made) {
    SweepResult& result = sweep_.results[i];
    const SweepRun& run = sweep_.runs[i];
    if (result.state != SweepResult::State::waiting) return false;
    const auto failed = std::ranges::find(made.failed, run.name, [](const auto& x) { return x.first; });
    if (failed != made.failed.end()) {
      result = {.state = SweepResult::State::failed, .curve = {}, .error = failed->second};
    } else if (std::ranges::find(made.done, run.name) != made.done.end()) {
      result = result_of(run_folder(way_.folder, run), run);
    } else {
      return false;
    }
    way_.note(fmt::format("run {} of {}: {}, run on rank {}\n", i + 1, sweep_.runs.size(), run.name, rank));
    note_result(result);
    return true;
  }

  Sweep& sweep_;
  const SweepWay& way_;
  Communicator& processes_;
  std::vector<size_t> own_;
  MadeRuns made_;
  bool interrupted_ = false;  // true if any process was interrupted
};

}  // namespace

double measure_step_seconds(const SweepRun& run, Isa isa, const Communicator& processes) {
  const TrainConfig& train = run.config.train;
  ThreadPool pool(thread_count(train.threads, processes));
  Model model(run.config.model);
  ParamBuffer weights(model.table, DType::f32, "weights");
  model.weights.assign(weights.views().begin(), weights.views().end());
  fill_random_weights(pool, model.table, weights);
  const Workload workload{.mode = BenchMode::train,
                          .dtype = tensor_dtype(train.dtype),
                          .batch_size = train.micro_batch,
                          .n_ctx = run.config.model.n_ctx,
                          .recompute = train.recompute,
                          .repeat = 2};
  const WorkloadResult result = run_workload({model, weights, {pool, kernel_table(isa)}, {}}, workload);
  return result.median_seconds() * static_cast<double>(train.batch_size) /
         static_cast<double>(train.micro_batch);
}

Sweep read_sweep(const std::string& folder) {
  const std::string path = folder + "/sweep.json";
  const nlohmann::json object = read_json_file(path);
  if (!object.is_object() || !object.contains("runs") || !object["runs"].is_array() || object["runs"].empty())
    fail("{}: expected an object with \"runs\"; set `out` to the folder of a sweep", path);
  Sweep sweep;
  if (object.contains("floor") && object["floor"].is_number()) sweep.floor = object["floor"].get<double>();
  if (object.contains("command_line") && object["command_line"].is_string())
    sweep.command_line = object["command_line"].get<std::string>();
  for (const nlohmann::json& entry : object["runs"]) {
    sweep.runs.push_back(read_run(entry, path));
    SweepResult result = result_of(run_folder(folder, sweep.runs.back()), sweep.runs.back());
    if (entry.value("state", "") == "failed") {
      result.state = SweepResult::State::failed;
      result.error = entry.value("error", "");
    }
    sweep.results.push_back(std::move(result));
  }
  return sweep;
}

bool run_sweep(Sweep& sweep, const SweepWay& way) {
  check_same_data(sweep, way.folder);
  SharedSweep shared(sweep, way);
  return shared.make_own_runs() && shared.wait_for_others();
}

}  // namespace gpt

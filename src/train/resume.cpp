#include "train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "io/checkpoint_dir.h"
#include "io/json.h"
#include "train/schedule.h"

namespace gpt {
namespace {

using nlohmann::json;

// Where text and tokenizer lie is free: what is in them is compared.
bool is_compared(const std::string& key) {
  const std::vector<std::string>& free = resumable_keys();
  return key != "data" && key != "val_data" && key != "tokenizer" && key != "device" &&
         std::ranges::find(free, key) == free.end();
}

// before: {} in checkpoints of older versions. Keys that only one of them has came with another version.
void check_same_config(const std::string& folder, const json& before, const json& now) {
  for (const auto& [key, value] : before.items()) {
    if (!is_compared(key) || !now.contains(key) || now[key] == value) continue;
    fail(
        "cannot resume: {}/config.json was changed: the run was made with {} = {}, found {}; put it back, or "
        "start another run from this one with --init-from",
        folder, key, value.dump(), now[key].dump());
  }
}

}  // namespace

const std::vector<std::string>& resumable_keys() {
  static const std::vector<std::string> keys = {"steps",      "stop_after", "threads",      "log_every",
                                                "eval_every", "save_every", "sample_every", "patience"};
  return keys;
}

ResumedRun check_resumable(const std::string& folder, const RunConfig& config) {
  const std::string last = folder + "/last";
  recover_directory(last);
  if (!std::filesystem::exists(last + "/train_state.json")) {
    fail("cannot resume: {} holds no checkpoint of a training run; start it anew without --resume", last);
  }
  verify_manifest(last, true);
  ResumedRun run;
  run.state = read_run_state(last);
  const json before = json::parse(run.state.config);
  check_same_config(folder, before, run_config_json(config));
  run.planned_steps = before.value("steps", config.train.steps);
  if (config.train.steps < run.state.step) {
    fail("cannot resume: {} has made {} steps already; --steps must be at least that, found {}", folder,
         format_thousands(run.state.step), format_thousands(config.train.steps));
  }
  return run;
}

void check_same_data(const DataIdentity& before, const DataIdentity& now) {
  const std::string difference = data_difference(before, now);
  if (difference.empty()) return;
  fail("cannot resume: {}: put it back, or start another run from this one with --init-from", difference);
}

void keep_steps(const std::string& folder, int64_t steps) {
  const std::string path = folder + "/config.json";
  json config = read_json_file(path);
  if (config.value("steps", steps) == steps) return;
  config["steps"] = steps;
  write_file_atomic(path, config.dump(2) + "\n");
}

std::string extension_note(const ResumedRun& run, const TrainConfig& config) {
  if (config.steps == run.planned_steps) return "";
  const int64_t step = run.state.step;
  TrainConfig before = config;
  before.steps = run.planned_steps;
  const double old_rate = learning_rate(before, std::max<int64_t>(0, step - 1)),
               rate = learning_rate(config, step);
  std::string note = fmt::format("{} from {} to {} steps: from step {} on the schedule is that of {} steps",
                                 config.steps > run.planned_steps ? "extended" : "shortened",
                                 format_thousands(run.planned_steps), format_thousands(config.steps),
                                 format_thousands(step), format_thousands(config.steps));
  if (step < config.steps && rate > old_rate)
    note += fmt::format("; the learning rate rises from {:.3g} to {:.3g}", old_rate, rate);
  return note + "\n";
}

std::string lost_best_note(const std::optional<BestModel>& best, int64_t step) {
  if (!best || best->step <= step) return "";
  return fmt::format(
      "best/ is of step {}, of the part that was lost behind the checkpoint of step {}: it stays until the "
      "validation loss is below its {:.4f}\n",
      best->step, step, best->val_loss);
}

}  // namespace gpt

#include "run/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "convert/adapter_files.h"
#include "convert/gguf_vocab.h"
#include "data/corpus.h"
#include "data/text_blocks.h"
#include "io/checkpoint_dir.h"
#include "report/tfevents.h"
#include "run/run_data.h"
#include "train/schedule.h"

namespace gpt {
namespace {

using nlohmann::json;

// Returns true if changing the config key prevents a run from being resumed. The paths of texts and
// tokenizers may change, because their contents are compared instead.
bool is_compared(const std::string& key) {
  const std::vector<std::string>& free = resumable_keys();
  return key != "data" && key != "val_data" && key != "model" && key != "tokenizer" && key != "device" &&
         std::ranges::find(free, key) == free.end();
}

bool is_exact(const json& config) {
  return config.value("reduce", "exact") == "exact";
}

// `before` is {} in checkpoints of older versions. A key that is missing in one of the two configs was added
// or removed between versions. Such keys are ignored. With a `reduce` other than exact, results depend on the
// number of ranks anyway, so `micro_batch` may change with the number of ranks.
void check_same_config(const std::string& path, const json& before, const json& now) {
  const bool is_fast = !is_exact(before) || !is_exact(now);
  for (const auto& [key, value] : before.items()) {
    if (!is_compared(key) || (is_fast && key == "micro_batch") || !now.contains(key) || now[key] == value)
      continue;
    fail(
        "cannot resume: {} was changed: the run was started with {} = {}, found {}; restore the value, or "
        "start a new run from this one with gpt train --init-from",
        path, key, value.dump(), now[key].dump());
  }
}

std::string reduce_note(const json& before, const json& now, int64_t step) {
  const std::string from = before.value("reduce", "exact"), to = now["reduce"];
  if (from == to) return "";
  return fmt::format("reduce: {} up to step {}, {} afterwards\n", from, format_thousands(step), to);
}

bool same_tokens(const Tokenizer& a, const Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) return false;
  for (int32_t id = 0; id < a.vocab_size(); ++id) {
    if (a.token_bytes(id) != b.token_bytes(id)) return false;
  }
  return true;
}

bool has_keys(const std::string& path, std::initializer_list<const char*> keys) {
  try {
    const nlohmann::json object = read_json_file(path);
    return object.is_object() &&
           std::ranges::all_of(keys, [&](const char* key) { return object.contains(key); });
  } catch (const Error&) {
    return false;
  }
}

bool is_empty_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) == 0;
}

// Throws Error if the folder does not belong to a run and contains files that the run would replace. Two
// files are accepted: a plan.json that `gpt plan` wrote for the new run, and an empty metrics.jsonl from a
// run that was killed immediately.
void refuse_files_of_others(const std::string& folder) {
  for (const std::string name : {"best", "metrics.jsonl", "loss.svg", "report.html", "plan.json"}) {
    const std::string path = fmt::format("{}/{}", folder, name);
    if (!path_exists(path)) continue;
    if (name == "plan.json" && has_keys(path, {"compute_optimal"})) continue;
    if (name == "metrics.jsonl" && is_empty_file(path)) continue;
    fail("{} is not the output of a run of this program and would be replaced; choose a different `out`",
         path);
  }
}

}  // namespace

const std::vector<std::string>& resumable_keys() {
  static const std::vector<std::string> keys = {"steps",      "stop_after", "threads",      "log_every",
                                                "eval_every", "save_every", "sample_every", "patience",
                                                "zero",       "reduce"};
  return keys;
}

ResumedRun check_resumable(const std::string& folder, const RunConfig& config, const std::string& tuning) {
  const std::string last = folder + "/last";
  recover_directory(last);
  if (!std::filesystem::exists(last + "/train_state.json")) {
    fail("cannot resume: {} contains no checkpoint of a training run; start a new run without `resume`",
         last);
  }
  verify_manifest(last, true);
  ResumedRun run;
  run.state = read_run_state(last);
  const json before = json::parse(run.state.config);
  const json now = run_config_json(config);
  check_same_config(folder + "/config.json", before, now);
  check_same_config(folder + "/finetune.json", json::parse(run.state.tuning), json::parse(tuning));
  run.reduce_note = reduce_note(before, now, run.state.step);
  run.planned_steps = before.value("steps", config.train.steps);
  if (config.train.steps < run.state.step) {
    fail("cannot resume: {} has already completed {} steps; `steps` must be at least this number, found {}",
         folder, format_thousands(run.state.step), format_thousands(config.train.steps));
  }
  return run;
}

void check_same_data(const DataIdentity& before, const DataIdentity& now) {
  const std::string difference = data_difference(before, now);
  if (difference.empty()) return;
  fail("cannot resume: {}; restore the original, or start a new run from this one with gpt train --init-from",
       difference);
}

void keep_changes(const std::string& folder, const RunConfig& config) {
  const std::string path = folder + "/config.json";
  const json before = read_json_file(path), now = run_config_json(config);
  json changed = before;
  for (const char* key : {"steps", "reduce", "zero"})
    changed[key] = now[key];
  if (changed != before) write_file_atomic(path, changed.dump(2) + "\n");
}

std::string extension_note(const ResumedRun& run, const TrainConfig& config) {
  if (config.steps == run.planned_steps) return "";
  const int64_t step = run.state.step;
  TrainConfig before = config;
  before.steps = run.planned_steps;
  const double old_rate = learning_rate(before, std::max<int64_t>(0, step - 1)),
               rate = learning_rate(config, step);
  std::string note = fmt::format(
      "{} from {} to {} steps: after step {} the run follows the schedule of {} steps",
      config.steps > run.planned_steps ? "extended" : "shortened", format_thousands(run.planned_steps),
      format_thousands(config.steps), format_thousands(step), format_thousands(config.steps));
  if (step < config.steps && rate > old_rate)
    note += fmt::format("; the learning rate rises from {:.3g} to {:.3g}", old_rate, rate);
  return note + "\n";
}

std::string lost_best_note(const std::optional<BestModel>& best, int64_t step) {
  if (!best || best->step <= step) return "";
  return fmt::format(
      "best/ is the model of step {}, which was lost when the run was resumed from step {}; best/ is kept "
      "until the validation loss is below {:.4f}\n",
      best->step, step, best->val_loss);
}

void require_shape(const ModelConfig& asked, const ModelConfig& model) {
  const nlohmann::json before = model_keys_json(model), now = model_keys_json(asked);
  for (const auto& [key, value] : before.items()) {
    const bool free =
        key.ends_with("dropout") || key == "init" || key == "init_std" || key == "residual_init_scale";
    if (free || !now.contains(key) || now[key] == value) continue;
    fail_key(key,
             "the model of `init_from` has {}, found {}; leave it out, or train a new model "
             "without `init_from`",
             value.dump(), now[key].dump());
  }
}

void require_tokenizer(const std::string& name, const Tokenizer& model) {
  if (name == "char" && model.kind() == "char") return;  // the characters of the model's tokenizer are used
  bool same = false;
  if (name != "char") {
    const auto asked = name.ends_with(".gguf") ? gguf_tokenizer(name) : open_tokenizer(name, {});
    same = same_tokens(*asked, model);
  }
  if (!same)
    fail_key("tokenizer",
             "{} differs from the tokenizer of the `init_from` model ({}, {} tokens), which the run uses; "
             "leave it out",
             name, model.kind(), model.vocab_size());
}

void require_free_folder(const std::string& folder, bool again) {
  const std::string last = folder + "/last", best = folder + "/best", config = folder + "/config.json";
  recover_directory(last);
  recover_directory(best);
  const bool has_log = path_exists(folder + "/metrics.jsonl");
  const bool is_run = has_log && has_keys(config, {"data", "steps"});
  if (path_exists(last) || (path_exists(config) && !is_run)) {
    fail("{} already contains a model or a run; continue the run with `resume`, or choose a different `out`",
         folder);
  }
  for (const char* name : {kAdapterConfig, kAdapterTensors}) {
    if (path_exists(fmt::format("{}/{}", folder, name)))
      fail("{} already contains an adapter; choose a different `out`", folder);
  }
  if (!is_run) return refuse_files_of_others(folder);
  if (path_exists(best) && !again) {
    fail(
        "{0} contains the best model of a run that ended before its first checkpoint, so the run cannot be "
        "resumed; choose a different `out`, and set `init_from` {0}/best to start from that model",
        folder);
  }
}

void open_run_folder(Communicator& processes, const std::string& folder, const TrainConfig& config,
                     bool resume, bool again) {
  if (processes.rank() == 0) {
    if (!resume) {
      refuse_output_among_texts(folder, source_paths(config));
      require_free_folder(folder, again);
      // An earlier run that saved no checkpoint may have left event files.
      if (path_exists(folder + "/metrics.jsonl")) remove_event_files(folder);
    }
    for (const char* part : {"/last", "/best"})
      recover_directory(folder + part);
  }
  barrier(processes, "opening the run folder on rank 0");
}

}  // namespace gpt

#include "eval_tasks.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "chat/model_text.h"
#include "infer/cached_model.h"
#include "output.h"
#include "task_report.h"
#include "world.h"

namespace gpt {
namespace {

constexpr int64_t kSequences = 32, kStepRows = 512;
constexpr int64_t kCacheTokens = 16384;  // also holds cached prefixes

// The tasks of all given files.
struct Named {
  TaskSet set;
  std::vector<CoreTask> core;
};

Named read_named(const std::vector<std::string>& files) {
  Named named;
  std::vector<std::string> rest;
  for (const std::string& file : files) {
    if (is_folder(file)) fail("{}: expected the .yaml file of a task, found a folder", file);
    if (!is_core_bundle(file)) {
      rest.push_back(file);
      continue;
    }
    const std::vector<CoreTask> tasks = read_core_bundle(file);
    named.core.insert(named.core.end(), tasks.begin(), tasks.end());
  }
  if (!rest.empty()) named.set = read_task_set(rest);
  return named;
}

Inference::Options inference_options(const EvalTasksRequest& r, const ModelConfig& config) {
  const DType dtype = parse_dtype("--dtype", r.dtype);
  const InferenceTypes types = inference_types(dtype);
  const int64_t slots = r.batch_size > 0 ? r.batch_size : kSequences;
  const int64_t tokens = std::max(2 * config.n_ctx, kCacheTokens);
  return {.slots = static_cast<int>(slots),
          .max_rows = kStepRows,
          // cache_tokens 0 reserves a full context for every slot.
          .cache_tokens = tokens < slots * config.n_ctx ? tokens : 0,
          .dtype = types.activations,
          .weights = dtype,
          .kv_dtype = types.cache};
}

// Shows the progress of the tasks, one line each.
class TaskNotes {
 public:
  void operator()(const std::string& task, int64_t done, int64_t total) {
    if (task != task_) {
      note_.reset();
      note_.emplace(task);
      task_ = task;
    }
    note_->update(static_cast<double>(done), static_cast<double>(total),
                  fmt::format("{} of {}", format_thousands(done), format_amount(total, "request")));
  }

 private:
  std::string task_;
  std::optional<ProgressNote> note_;
};

ModelScores run_model(const EvalTasksRequest& r, const std::string& path,
                      const std::vector<std::string>& adapters, const Named& named, Machine& machine,
                      const std::function<void(const std::string&)>& on_sample) {
  const LoadedModel loaded(path, std::nullopt, MatrixOrder::as_stored);
  const auto tokenizer = chosen_tokenizer(loaded, r.tokenizer);
  if (tokenizer == nullptr)
    fail("{} has no tokenizer.json; name one with --tokenizer (byte, or a file)", path);
  const ModelConfig& config = loaded.model().config;
  const auto adapter = fitting_adapters(loaded, adapters);
  write_note(notes_of_other_bases(loaded, adapters));
  Inference::Options inference_of = inference_options(r, config);
  if (adapter != nullptr) inference_of.adapter_rank = adapter->rank;
  Inference inference(loaded.model(), machine.backend, inference_of);
  CachedModel cached(inference, false, adapter != nullptr ? inference.add_adapter(adapter) : -1);
  std::optional<ChatTemplate> chat;
  if (!r.chat_template.empty()) {
    const std::string name = r.chat_template == "own" ? "" : r.chat_template;
    chat.emplace(model_chat_template(loaded, *tokenizer, name, "--template"));
  }
  TaskModel model(cached, *tokenizer, config, kStepRows, chat ? &*chat : nullptr, world());
  TaskNotes notes;
  std::string name = path;
  for (const std::string& adapter_path : adapters)
    name += " + " + adapter_path;
  TaskOptions options{.data_dir = r.data_dir,
                      .num_fewshot = r.few_shot,
                      .limit = r.limit,
                      .seed = r.seed,
                      .on_sample = on_sample};
  if (is_first_process()) options.progress = std::ref(notes);
  ModelScores scores{.model = name, .tasks = {}, .core = {}, .counts = {}};
  const Clock::time_point start = Clock::now();
  scores.tasks = transformed(
      named.set.tasks, [&](const TaskConfig& task) { return run_task(task, model, options, machine.pool); });
  scores.core = transformed(
      named.core, [&](const CoreTask& task) { return run_core_task(task, model, options, machine.pool); });
  scores.seconds = seconds_since(start);
  scores.counts = model.counts();
  return scores;
}

void check_request(const EvalTasksRequest& r) {
  if (r.few_shot) check_range("--few-shot", *r.few_shot, 0, 1000);
  if (r.limit) check_range("--limit", *r.limit, 1, int64_t{1} << 40);
  check_range("--batch-size", r.batch_size, 0, 4096);
  const auto place = [](const std::string& model) { return resolved_path(resolve_model_path(model)); };
  if (!r.against.empty() && r.adapters.empty() && place(r.against) == place(r.model))
    fail("--against: {} is the same model; name a different model", r.against);
  if (!r.html.empty()) check_output_file("--html", r.html, kScoresPage);
  if (!r.log_samples.empty()) check_output_file("--log-samples", r.log_samples, {"\"doc_id\""});
}

// Checks all tasks with a chat template before the model evaluates the first one.
void check_chat_tasks(const EvalTasksRequest& r, const Named& named) {
  if (!named.core.empty()) fail_usage("--template: not available for nanochat's CORE");
  for (const TaskConfig& task : named.set.tasks)
    check_chat_task(task, {.data_dir = r.data_dir, .num_fewshot = r.few_shot});
}

}  // namespace

int eval_tasks(const EvalTasksRequest& r, const MachineOptions& machine_options) {
  check_request(r);
  const Named named = read_named(r.files);
  if (!r.chat_template.empty()) check_chat_tasks(r, named);
  Machine machine(part_of_machine(machine_options));
  std::optional<AppendFile> log;
  if (!r.log_samples.empty() && is_first_process()) log.emplace(r.log_samples, AppendFile::Mode::empty);
  std::function<void(const std::string&)> on_sample;
  if (log) on_sample = [&](const std::string& line) { log->append(line + "\n"); };
  const ModelScores scores = run_model(r, r.model, r.adapters, named, machine, on_sample);
  std::optional<ModelScores> others;
  std::optional<TaskComparison> comparison;
  if (!r.against.empty()) {
    others = run_model(r, r.against, {}, named, machine, {});
    comparison.emplace(compare_scores(scores, *others, machine.pool));
  }
  const TaskComparison* const against = comparison ? &*comparison : nullptr;
  if (!r.html.empty() && is_first_process())
    write_file_atomic(r.html, scores_page(scores, named.set.groups, against));
  if (r.json) {
    write_output(scores_json(scores, named.set.groups, against));
    return 0;
  }
  write_output(format_table(score_table(scores, named.set.groups)));
  if (against != nullptr) write_output("\n" + format_table(comparison_table(*against)));
  if (!r.html.empty()) write_note("page: " + r.html + "\n");
  return 0;
}

}  // namespace gpt

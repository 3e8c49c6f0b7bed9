#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "chat/model_text.h"
#include "chat/vocabularies.h"
#include "command.h"
#include "data/token_hash.h"
#include "eval/evaluate.h"
#include "eval_tasks.h"
#include "eval_text.h"
#include "finetune/examples.h"
#include "finetune/tune_config.h"
#include "generation.h"
#include "options.h"
#include "output.h"
#include "report/table.h"
#include "run/same_run.h"
#include "run/trained_text.h"
#include "text/chat_formats.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kEvalFooter = R"(Examples:
  gpt eval run                                    the validation text of the run
  gpt eval run --data test.txt                    all of a different text
  gpt eval run --data input.txt --split all       all of the text, even if the run was trained on it
  gpt eval run --data test.txt --stride 32 --json                more context for every token, slower
  gpt eval run --data tales:1000000 --seed 9
  gpt eval model --adapter tuned --data test.txt  with an adapter from gpt finetune
  gpt eval run --data test.txt --dtype q8_0 --against fp32       the effect of quantized weights
  gpt eval q4.gguf --data test.txt --against model               a quantized file and its original
  gpt eval run --tasks hellaswag.yaml --data-dir data --few-shot 5       a task of lm-evaluation-harness
  gpt eval run --tasks core.yaml --html scores.html                      nanochat's CORE
  gpt eval run --tasks facts.yaml --against older                        two models on the same documents
  gpt eval tuned --tasks gsm8k.yaml --template own                       asks in the chat template of the model
  gpt launch -n 4 -- eval run --data test.txt     four processes, with the same results

By default, the validation part of the run's own text is evaluated, or all of any other text. The loss is comparable with the
final loss that gpt train reports; its earlier validation losses are measured on random windows. Every token except the first is
predicted once, in windows of --n-ctx tokens whose starts are --stride apart.
--against compares with a second data type, or with a different model of the same vocabulary. It shows the losses of both,
and the Kullback-Leibler divergence of the predictions from those of --against, in nats. Bits per byte are relative to the size of
the text files. For a part of a file, the size is in proportion to the bytes of the decoded tokens. For shards of llm.c, which do
not store the size of the text, it is the number of these bytes.

--tasks evaluates questions with known answers. A task file is a task or group of lm-evaluation-harness in YAML, or the
core.yaml of nanochat's CORE bundle. The data is JSONL on this machine, named in dataset_kwargs.data_files, or stored as
TASK/SPLIT.jsonl in --data-dir. Nothing is downloaded, and no Python code is run. With --tasks, --batch-size is the number of
sequences computed together, and --against is a different model, which is compared on the same documents.)";

constexpr DType kProductTypes[] = {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_0};

struct EvalArguments {
  std::string model, dtype = "fp32", against;
  EvalTextRequest text;
  std::vector<std::string> adapters;
  EvalTasksRequest tasks;
  EvalOptions options;
  bool json = false;
  MachineOptions machine;
};

class EvalProgress {
 public:
  void operator()(int64_t done, int64_t total) {
    const int64_t percent = 100 * done / total;
    if (!notes_are_on_terminal() || percent == shown_) return;
    shown_ = percent;
    write_note(fmt::format("\revaluating: {} of {} ({} %){}", format_thousands(done),
                           format_amount(total, "window"), percent, done == total ? "\n" : ""));
  }

 private:
  int64_t shown_ = -1;
};

nlohmann::json loss_json(const EvalResult& r) {
  return {{"loss", r.loss()}, {"perplexity", r.perplexity()}, {"bits_per_byte", r.bits_per_byte()}};
}

nlohmann::json result_json(const EvalArguments& a, const EvalResult& r, const EvalText& text) {
  nlohmann::json out = loss_json(r);
  out.update({{"dtype", a.dtype},
              {"tokens", r.tokens},
              {"text_bytes", r.text_bytes},
              {"n_ctx", r.n_ctx},
              {"stride", r.stride},
              {"split", text.split},
              {"trained_on", text.trained},
              {"seen_in_training", text.seen}});
  if (text.floor) out["floor_bits_per_byte"] = *text.floor / std::numbers::ln2;
  return out;
}

// The second side of --against when evaluating a text: the same model with a different dtype, or a different
// model.
struct Against {
  std::unique_ptr<LoadedModel> loaded;  // null: the same model
  DType dtype;
};

Against load_against(const EvalArguments& a, const LoadedModel& loaded, DType dtype) {
  const bool is_type =
      std::ranges::any_of(kProductTypes, [&](DType t) { return a.against == dtype_name(t); });
  if (!is_type) {
    if (path_kind(a.against) == PathKind::nothing) parse_dtype("--against", a.against);
    auto other = std::make_unique<LoadedModel>(a.against, std::nullopt, MatrixOrder::as_stored);
    require_equal_vocabularies(loaded, *other);
    if (a.adapters.empty() && same_weights(loaded.model(), other->model()))
      fail("--against: {} has the same weights as {}; name a different model", a.against, a.model);
    return {std::move(other), dtype};
  }
  const auto blocks = std::ranges::find_if(
      loaded.model().weights, [](const TensorView& weight) { return is_quantized(weight.dtype); });
  if (blocks != loaded.model().weights.end())
    fail("--against: {} has {} weights, so both sides would use them instead of {}; name the original model",
         a.model, dtype_name(blocks->dtype), a.against);
  const DType against = parse_dtype("--against", a.against);
  if (against == dtype)
    fail_usage("--against: expected a data type other than --dtype, or a model; found {} for both",
               a.against);
  return {nullptr, against};
}

nlohmann::json comparison_json(const EvalArguments& a, const Against& against, const Comparison& c,
                               const EvalText& text) {
  nlohmann::json out = result_json(a, c.result, text);
  out["against"] = loss_json(c.against);
  out["against"]["dtype"] = dtype_name(against.dtype);
  if (against.loaded != nullptr) out["against"]["model"] = a.against;
  out["kl_divergence"] = {{"mean", c.kl_mean}, {"p99", c.kl_99}, {"max", c.kl_max}};
  out["same_top"] = c.same_top;
  return out;
}

// Appends the rows about the text after the rows with losses. Every row has `columns` columns.
void add_text_rows(TextTable& table, const EvalResult& r, const std::optional<double>& floor) {
  const size_t columns = table.rows.front().size();
  const auto add = [&](const char* name, std::string value, std::string note) {
    std::vector<std::string> row{name, std::move(value)};
    row.resize(columns - 1);
    row.push_back(std::move(note));
    table.rows.push_back(row);
  };
  if (floor)
    add("floor", fmt::format("{:.4f}", *floor / std::numbers::ln2), "bits per byte, the entropy of the text");
  add("tokens", format_thousands(r.tokens),
      fmt::format("windows of {}, stride {}", format_thousands(r.n_ctx), format_thousands(r.stride)));
  add("text bytes", format_thousands(r.text_bytes), "");
}

std::string result_table(const EvalResult& r, const std::optional<double>& floor) {
  TextTable table;
  table.rows = {{"loss", format_loss(r.loss()), "nats per token"},
                {"perplexity", format_perplexity(r.perplexity()), ""},
                {"bits per byte", format_loss(r.bits_per_byte()), ""}};
  add_text_rows(table, r, floor);
  return format_table(table);
}

std::string comparison_table(const EvalArguments& a, const Against& against, const Comparison& c,
                             const std::optional<double>& floor) {
  const EvalResult &q = c.result, &p = c.against;
  const auto number = [](double x) { return fmt::format("{:.4f}", x); };
  const auto nats = [](double x) { return fmt::format("{:.3g}", x); };
  TextTable table;
  table.rows = {{"", against.loaded != nullptr ? a.model : a.dtype, a.against, ""},
                {"loss", number(q.loss()), number(p.loss()), "nats per token"},
                {"perplexity", number(q.perplexity()), number(p.perplexity()),
                 fmt::format("{:+.3f} %", 100 * (q.perplexity() / p.perplexity() - 1))},
                {"bits per byte", number(q.bits_per_byte()), number(p.bits_per_byte()), ""},
                {"KL divergence", nats(c.kl_mean), "",
                 fmt::format("nats, mean over tokens, relative to {}", a.against)},
                {"  99 % below", nats(c.kl_99), "", ""},
                {"  largest", nats(c.kl_max), "", ""},
                {"same top token", fmt::format("{:.2f} %", 100 * c.same_top), "", ""}};
  add_text_rows(table, q, floor);
  return format_table(table);
}

// Waits until the checksums of the shards are verified. A loss of damaged text is meaningless, so nothing is
// printed before that.
void finish_check(ShardCheck& check) {
  constexpr double kForever = 1e6;  // seconds
  check.finish(kForever);
}

// Throws Error if the ranks evaluate different data, settings or models, because their combined result would
// be meaningless.
void require_same_evaluation(Communicator& processes, const EvalArguments& a, const EvalText& text,
                             const LoadedModel& loaded, std::string_view kernels) {
  if (processes.size() == 1) return;
  DataIdentity data;
  data.val = identity_of(text.tokens);
  data.tokenizer = hex_hash(text.data.tokenizer->to_json());
  const nlohmann::json settings = {{"n_ctx", a.options.n_ctx},
                                   {"stride", a.options.stride},
                                   {"batch_size", a.options.batch_size},
                                   {"dtype", a.dtype},
                                   {"against", a.against},
                                   {"model", model_keys_json(loaded.model().config)}};
  require_same_run(processes, {data, settings.dump(), kernels, 0});
}

// Throws invalid_argument for a given flag that only the other kind of evaluation (text or tasks) reads.
void check_kind_of_flags(const EvalArguments& a) {
  const bool tasks = !a.tasks.files.empty();
  const EvalOptions defaults;
  const std::pair<const char*, bool> of_tasks[] = {{"--data-dir", !a.tasks.data_dir.empty()},
                                                   {"--few-shot", a.tasks.few_shot.has_value()},
                                                   {"--template", !a.tasks.chat_template.empty()},
                                                   {"--log-samples", !a.tasks.log_samples.empty()},
                                                   {"--html", !a.tasks.html.empty()}};
  const std::pair<const char*, bool> of_text[] = {{"--field", !a.text.field.empty()},
                                                  {"--include", !a.text.filter.include.empty()},
                                                  {"--exclude", !a.text.filter.exclude.empty()},
                                                  {"--split", !a.text.split.empty()},
                                                  {"--val-fraction", a.text.val_fraction.has_value()},
                                                  {"--n-ctx", a.options.n_ctx != defaults.n_ctx},
                                                  {"--stride", a.options.stride != defaults.stride}};
  for (const auto& [flag, given] : of_tasks) {
    if (given && !tasks) fail_usage("{}: requires --tasks", flag);
  }
  for (const auto& [flag, given] : of_text) {
    if (given && tasks) fail_usage("{}: cannot be combined with --tasks", flag);
  }
}

int run_tasks(const EvalArguments& a) {
  if (!a.text.data.empty()) fail_usage("--tasks and --data: expected one of them");
  EvalTasksRequest request = a.tasks;
  request.model = a.model;
  request.against = a.against;
  request.dtype = a.dtype;
  request.tokenizer = a.text.tokenizer;
  request.adapters = a.adapters;
  request.batch_size = a.options.batch_size;
  request.seed = static_cast<uint64_t>(std::max<int64_t>(0, a.text.seed.value_or(1)));
  request.json = a.json;
  return eval_tasks(request, a.machine);
}

// Without --data, the text of the run is evaluated. Throws invalid_argument if there is no run, or for a
// fine-tuning run, which has no text.
void require_text_of_run(const std::string& run) {
  if (run.empty()) fail_usage("--data is missing: name the text to evaluate on, for example --data test.txt");
  if (!is_tuning_run(run)) return;
  const TuneConfig tuned = read_tune_config(run);
  const std::string how = find_task(tuned.task) ? "score examples with gpt classify --data FILE"
                                                : "evaluate it on questions (--tasks)";
  fail_usage(
      "--data is missing: {} was fine-tuned on examples (--task {}); {}/report.html shows the evaluation "
      "score; {}, or name a text to compute the loss of plain text",
      run, tuned.task, run, how);
}

int run(const EvalArguments& a) {
  require_argument(a.model, "MODEL", "eval");
  check_kind_of_flags(a);
  if (!a.tasks.files.empty()) return run_tasks(a);
  const DType dtype = parse_dtype("--dtype", a.dtype);
  Communicator& processes = world();
  Machine machine(part_of_machine(a.machine));
  const LoadedModel loaded(a.model, std::nullopt, MatrixOrder::as_stored);
  if (a.text.data.empty()) require_text_of_run(find_run(a.model));
  if (chosen_tokenizer(loaded, a.text.tokenizer) == nullptr)
    fail("{} has no tokenizer.json; name one with --tokenizer (byte, or a file)", a.model);
  Against against{.loaded = nullptr, .dtype = dtype};
  if (!a.against.empty()) against = load_against(a, loaded, dtype);
  EvalText text = load_eval_text(a.text, a.model, loaded);
  if (a.tasks.limit) check_range("--limit", *a.tasks.limit, 1, int64_t{1} << 40);
  if (a.tasks.limit) text.tokens = text.tokens.part(0, std::min(text.tokens.size(), *a.tasks.limit + 1));
  write_note(text.data.notes + text.note);
  require_same_evaluation(processes, a, text, loaded, machine.backend.kernels.name);
  ShardCheck check(text.split == "val" ? text.data.val_checksums : text.data.checksums);
  EvalOptions options = a.options;
  options.dtype = dtype;
  options.adapter = fitting_adapters(loaded, a.adapters);
  write_note(notes_of_other_bases(loaded, a.adapters));
  options.processes = &processes;
  if (!a.against.empty()) {
    const ComparedModel other{.model = against.loaded != nullptr ? against.loaded->model() : loaded.model(),
                              .dtype = against.dtype,
                              .adapter = against.loaded != nullptr ? nullptr : options.adapter};
    const Comparison c =
        compare(loaded.model(), text.tokens, options, other, machine.backend, EvalProgress());
    finish_check(check);
    write_output(a.json ? comparison_json(a, against, c, text).dump(2) + "\n"
                        : comparison_table(a, against, c, text.floor));
    return 0;
  }
  const EvalResult result = evaluate(loaded.model(), text.tokens, options, machine.backend, EvalProgress());
  finish_check(check);
  write_output(a.json ? result_json(a, result, text).dump(2) + "\n" : result_table(result, text.floor));
  if (!a.json)
    write_next(a.adapters.size() == 1 ? use_command(a.model, a.adapters[0]) : use_command(a.model));
  return 0;
}

std::vector<std::string> template_choices() {
  std::vector<std::string> names = chat_format_names();
  names.insert(names.begin(), "own");
  return names;
}

void add_text_options(CLI::App& app, EvalArguments& a) {
  add(app,
      {.flags = "--data,TEXT",
       .value = "PATH ...",
       .help = "Text to evaluate on: text files, .jsonl, .gz, .zst, folders, token shards, or tales or "
               "tales:BYTES",
       .fallback = "the text of the run",
       .kind = ValueKind::path},
      a.text.data);
  add_filter_options(app, a.text.filter);
  add_field_option(app, a.text.field, "the run's, otherwise text");
  add(app,
      {.flags = "--split",
       .help = "Part of the text to evaluate on",
       .fallback = "val for the text of the run, otherwise all",
       .choices = {"all", "train", "val"},
       .is_open = true},
      a.text.split);
  add(app,
      {.flags = "--val-fraction",
       .value = "X",
       .help = "Fraction of the text in --split val",
       .fallback = "the run's, otherwise 0.1"},
      a.text.val_fraction);
  add(app, {.flags = "--seed", .value = "N", .help = "Random seed of the tales", .fallback = "1"},
      a.text.seed);
  add(app,
      {.flags = "--n-ctx",
       .value = "N",
       .help = "Window length in tokens",
       .fallback = "the model's context"},
      a.options.n_ctx);
  add(app,
      {.flags = "--stride",
       .value = "N",
       .help = "Number of tokens between window starts",
       .fallback = "n_ctx"},
      a.options.stride);
  add(app,
      {.flags = "--batch-size",
       .value = "N",
       .help = "Number of windows that are computed together",
       .fallback = "chosen for speed"},
      a.options.batch_size);
}

void add_task_options(CLI::App& app, EvalArguments& a) {
  app.option_defaults()->group("tasks");
  add(app,
      {.flags = "--tasks",
       .value = "FILE ...",
       .help = "Task files (.yaml) to evaluate, instead of a text",
       .kind = ValueKind::path},
      a.tasks.files);
  add(app,
      {.flags = "--data-dir",
       .value = "DIR",
       .help = "Folder with the data of the tasks as JSONL",
       .kind = ValueKind::path},
      a.tasks.data_dir);
  add(app,
      {.flags = "--few-shot",
       .value = "K",
       .help = "Number of examples before each question",
       .fallback = "the task's number",
       .aliases = "--num-fewshot"},
      a.tasks.few_shot);
  add(app,
      {.flags = "--template",
       .value = "NAME",
       .help = "Chat template of the questions, or own for the model's chat template",
       .fallback = "plain text",
       .choices = template_choices(),
       .is_open = true,
       .aliases = kTemplateAliases},
      a.tasks.chat_template);
  add(app,
      {.flags = "--log-samples",
       .value = "FILE",
       .help = "File for the prompts and scores of each document as JSONL",
       .kind = ValueKind::path},
      a.tasks.log_samples);
  add(app,
      {.flags = "--html",
       .value = "FILE",
       .help = "File for the scores as a web page",
       .kind = ValueKind::path},
      a.tasks.html);
  app.option_defaults()->group("Options");
}

}  // namespace

Command add_eval_command(CLI::App& root) {
  auto a = std::make_shared<EvalArguments>();
  CLI::App* app = add_command(root, "eval", "loss, perplexity and bits per byte of a text", kEvalFooter);
  add_model_option(*app, a->model, "Model folder, run folder, .safetensors, .gguf, .pt or .bin file");
  add_text_options(*app, *a);
  add(*app, dtype_option(), a->dtype);
  add(*app,
      {.flags = "--against",
       .value = "DTYPE|MODEL",
       .help = "Data type or model to compare with; with --tasks: a model",
       .choices = matmul_dtypes(),
       .is_open = true,
       .kind = ValueKind::model_or_dtype},
      a->against);
  add_tokenizer_option(*app, a->text.tokenizer);
  add(*app,
      {.flags = "--limit",
       .value = "N",
       .help = "Maximum number of tokens of the text, or of documents of each task"},
      a->tasks.limit);
  add_adapter_option(*app, a->adapters);
  add_task_options(*app, *a);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt

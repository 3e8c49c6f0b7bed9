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
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kEvalFooter = R"(Examples:
  gpt eval run                                    the part of its text that the run held out
  gpt eval run --data test.txt                    another text, all of it
  gpt eval run --data input.txt --split all       all of it even if the run was trained on it
  gpt eval run --data test.txt --stride 32 --json                more context for every token, slower
  gpt eval run --data tales:1000000 --seed 9
  gpt eval model --adapter tuned --data test.txt  the model with what a fine-tuning learnt
  gpt eval run --data test.txt --dtype q8_0 --against fp32       what quantised weights cost
  gpt eval q4.gguf --data test.txt --against model               the same for a quantised file and its original
  gpt eval run --tasks hellaswag.yaml --data-dir data --few-shot 5       a task of lm-evaluation-harness
  gpt eval run --tasks core.yaml --html scores.html                      nanochat's CORE
  gpt eval run --tasks facts.yaml --against older                        two models on the same documents
  gpt eval tuned --tasks gsm8k.yaml --template own                       a model that chats, asked in its chat
  gpt launch -n 4 -- eval run --data test.txt     by four processes, to the same numbers

Of the text that a run was trained on, the part that it held out is taken; of any other text, all. The loss is the one that
gpt train reports for its held-out text at the end; its validation losses on the way are of random windows. Every token but
the first is predicted once, in windows of --n-ctx tokens that start --stride apart.
--dtype is the type of the products with weights. --against compares with a second type, or with another model of the
same vocabulary: loss of both, and Kullback-Leibler divergence of the predictions from those of --against, in nats.
Bits per byte divide by the bytes of the text as it is in its files; of a part of a file they are counted in proportion
to the bytes that its tokens decode to, and of llm.c's shards, which do not say, they are those bytes.

With --tasks: questions with known answers. A file is a task or a group in lm-evaluation-harness's YAML, or the core.yaml
of nanochat's CORE bundle. Data is JSONL on this machine, named in dataset_kwargs.data_files or lying in --data-dir as
TASK/SPLIT.jsonl; nothing is fetched and no Python is run. --batch-size is then the sequences at once, without effect on results,
--against another model, compared on the same documents.)";

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
      fail("--against: {} has the weights of {}, so that both sides are the same; name another model",
           a.against, a.model);
    return {std::move(other), dtype};
  }
  const auto blocks = std::ranges::find_if(
      loaded.model().weights, [](const TensorView& weight) { return is_quantized(weight.dtype); });
  if (blocks != loaded.model().weights.end())
    fail(
        "--against: {} holds {} weights, so both sides would read them instead of {}; name the model that it "
        "was made from",
        a.model, dtype_name(blocks->dtype), a.against);
  const DType against = parse_dtype("--against", a.against);
  if (against == dtype)
    fail_usage("--against: expected another type than that of --dtype, or a model, found {} for both",
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
  table.rows = {
      {"", against.loaded != nullptr ? a.model : a.dtype, a.against, ""},
      {"loss", number(q.loss()), number(p.loss()), "nats per token"},
      {"perplexity", number(q.perplexity()), number(p.perplexity()),
       fmt::format("{:+.3f} %", 100 * (q.perplexity() / p.perplexity() - 1))},
      {"bits per byte", number(q.bits_per_byte()), number(p.bits_per_byte()), ""},
      {"KL divergence", nats(c.kl_mean), "", fmt::format("nats, mean over tokens; from {}", a.against)},
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
    if (given && !tasks) fail_usage("{}: expected --tasks; a text has no use for it", flag);
  }
  for (const auto& [flag, given] : of_text) {
    if (given && tasks) fail_usage("{}: expected a text (--data); tasks have no use for it", flag);
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
                                                : "measure it with questions (--tasks)";
  fail_usage(
      "--data is missing: {} was fine-tuned on examples (--task {}); {}/report.html has the score of those "
      "held "
      "out; {}, or name a text for the loss of plain text",
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

}  // namespace

Command add_eval_command(CLI::App& root) {
  auto a = std::make_shared<EvalArguments>();
  CLI::App* app = add_command(root, "eval", "loss, perplexity and bits per byte of a text", kEvalFooter);
  app->add_option("-m,--model,MODEL", a->model, "model folder, run folder, .safetensors, .gguf, .pt or .bin");
  add_value(*app, "--data,TEXT", a->text.data, "PATH ...",
            "text, .jsonl, .gz, .zst, folders, token shards, or tales, tales:BYTES (what the run was "
            "trained on)");
  add_filter_options(*app, a->text.filter);
  add_value(*app, "--field", a->text.field, "NAME",
            "field of the text in .jsonl files (the run's, else text)");
  add_value(*app, "--split", a->text.split, "all|train|val",
            "which part of the text (val of what the run was trained on, else all)");
  add_value(*app, "--val-fraction", a->text.val_fraction, "X", "size of --split val (the run's, else 0.1)");
  add_value(*app, "--seed", a->text.seed, "N", "of the tales (1)");
  add_value(*app, "--n-ctx", a->options.n_ctx, "N", "window length (the model's context)");
  add_value(*app, "--stride", a->options.stride, "N", "tokens between windows (n_ctx)");
  add_value(*app, "--batch-size", a->options.batch_size, "N", "windows computed at once");
  add_shown(*app, "--dtype", a->dtype, "fp32|bf16|fp16|q8_0|q4_0", "type of the products with weights");
  add_value(*app, "--against", a->against, "TYPE|MODEL",
            "compare with this type, or with this model; with --tasks: a model");
  add_value(*app, "--tokenizer", a->text.tokenizer, "FILE",
            "instead of the model's: byte, or a tokenizer.json");
  add_value(*app, "--limit", a->tasks.limit, "N",
            "only the first N tokens of the text, or the first N documents of each task");
  add_adapter_option(*app, a->adapters);
  app->option_defaults()->group("tasks");
  add_value(*app, "--tasks", a->tasks.files, "FILE ...", "tasks as .yaml, in place of a text");
  add_value(*app, "--data-dir", a->tasks.data_dir, "DIR", "where the tasks' data lies as JSONL");
  add_value(*app, "--few-shot", a->tasks.few_shot, "K", "examples before each question (the task's number)");
  add_value(*app, "--template", a->tasks.chat_template, "NAME",
            "ask in a conversation by this chat template; own: the model's (the model writes on)");
  add_value(*app, "--log-samples", a->tasks.log_samples, "FILE",
            "each document's prompts and scores as JSONL");
  add_value(*app, "--html", a->tasks.html, "FILE", "the scores as a page");
  app->option_defaults()->group("Options");
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt

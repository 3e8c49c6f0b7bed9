#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"
#include "command.h"
#include "eval/evaluate.h"
#include "options.h"
#include "output.h"
#include "report/format.h"
#include "report/table.h"
#include "train/run_data.h"

namespace gpt {
namespace {

constexpr const char* kFooter = R"(Examples:
  gpt eval run --data test.txt
  gpt eval run --data input.txt --split val --val-fraction 0.1   the part that training held out
  gpt eval run --data test.txt --stride 32 --json                more context for every token, slower
  gpt eval run --data tales:1000000 --seed 9

Every token but the first is predicted once, in windows of --n-ctx tokens that start --stride apart.)";

struct EvalArguments {
  std::string model, tokenizer, split = "all";
  std::vector<std::string> data;
  double val_fraction = 0.1;
  int64_t seed = 1;
  EvalOptions options;
  bool json = false;
  MachineOptions machine;
};

// "all", or the parts as training splits a text.
TokenSpan choose_part(const TokenData& tokens, const EvalArguments& a) {
  check_choice("--split", a.split, {"all", "train", "val"});
  if (a.split == "all") return TokenSpan(tokens);
  const TokenSplit split = split_tokens(tokens, a.val_fraction);
  return a.split == "val" ? split.val : split.train;
}

class EvalProgress {
 public:
  void operator()(int64_t done, int64_t total) {
    const int64_t percent = 100 * done / total;
    if (!notes_are_on_terminal() || percent == shown_) return;
    shown_ = percent;
    write_note(fmt::format("\revaluating: {} of {} windows ({} %){}", done, total, percent,
                           done == total ? "\n" : ""));
  }

 private:
  int64_t shown_ = -1;
};

nlohmann::json result_json(const EvalResult& r, const std::optional<double>& floor) {
  nlohmann::json out = {
      {"loss", r.loss()},   {"perplexity", r.perplexity()}, {"bits_per_byte", r.bits_per_byte()},
      {"tokens", r.tokens}, {"text_bytes", r.text_bytes},   {"n_ctx", r.n_ctx},
      {"stride", r.stride}};
  if (floor) out["floor_bits_per_byte"] = *floor / std::numbers::ln2;
  return out;
}

std::string result_table(const EvalResult& r, const std::optional<double>& floor) {
  TextTable table{.columns = {}, .rows = {}};
  table.rows = {{"loss", fmt::format("{:.4f}", r.loss()), "nats per token"},
                {"perplexity", fmt::format("{:.4f}", r.perplexity()), ""},
                {"bits per byte", fmt::format("{:.4f}", r.bits_per_byte()), ""}};
  if (floor)
    table.rows.push_back({"floor", fmt::format("{:.4f}", *floor / std::numbers::ln2),
                          "bits per byte, the entropy of the text"});
  table.rows.push_back(
      {"tokens", format_thousands(r.tokens), fmt::format("windows of {}, stride {}", r.n_ctx, r.stride)});
  table.rows.push_back({"text bytes", format_thousands(r.text_bytes), ""});
  return format_table(table);
}

int run(const EvalArguments& a) {
  require_argument(a.model, "MODEL", "eval");
  if (a.data.empty())
    fail_usage("--data is missing: name the text to evaluate on, for example --data test.txt");
  if (a.seed < 0) fail_usage("--seed: expected a number of at least 0, found {}", a.seed);
  Machine machine(a.machine);
  const LoadedModel loaded(a.model);
  const std::unique_ptr<Tokenizer> tokenizer = model_tokenizer(loaded, a.tokenizer);
  if (tokenizer == nullptr)
    fail("{} has no tokenizer.json; name one with --tokenizer (byte, or a file)", a.model);
  int64_t story = 0;
  std::optional<double> floor;
  const Corpus corpus = load_named_corpus(a.data, static_cast<uint64_t>(a.seed), story, floor);
  const TokenData tokens = encode_corpus(corpus, *tokenizer);
  const EvalResult result = evaluate(loaded.model(), choose_part(tokens, a), a.options, machine.pool,
                                     machine.kernels, EvalProgress());
  write_output(a.json ? result_json(result, floor).dump(2) + "\n" : result_table(result, floor));
  return 0;
}

}  // namespace

Command add_eval_command(CLI::App& root) {
  auto a = std::make_shared<EvalArguments>();
  CLI::App* app = root.add_subcommand("eval", "loss, perplexity and bits per byte of a text");
  app->allow_extras();
  app->footer(kFooter);
  app->add_option("MODEL", a->model, "model folder, run folder, .safetensors or llama2.c .bin");
  app->add_option("--data", a->data, "text files or folders, or tales, tales:BYTES")->type_name("PATH ...");
  app->add_option("--split", a->split, "which part of the text")
      ->type_name("all|train|val")
      ->capture_default_str();
  app->add_option("--val-fraction", a->val_fraction, "size of --split val")
      ->type_name("X")
      ->capture_default_str();
  app->add_option("--seed", a->seed, "of the tales")->type_name("N")->capture_default_str();
  app->add_option("--n-ctx", a->options.n_ctx, "window length (the model's context)")->type_name("N");
  app->add_option("--stride", a->options.stride, "tokens between windows (n_ctx)")->type_name("N");
  app->add_option("--batch-size", a->options.batch_size, "windows computed at once")->type_name("N");
  app->add_option("--tokenizer", a->tokenizer, "instead of the model's: byte, or a tokenizer.json")
      ->type_name("FILE");
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt

#include "eval_text.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/gguf.h"
#include "options.h"
#include "report/format.h"
#include "train/trained_text.h"

namespace gpt {
namespace {

constexpr double kValFraction = 0.1;

std::string named(const std::vector<std::string>& names) {
  return names.size() == 1 ? names[0] : fmt::format("{} and {} more", names[0], names.size() - 1);
}

// What is to be loaded, and what is known of it.
struct Choice {
  TrainConfig config;
  TextRole role = TextRole::other;
  std::string split;  // "" while it is to be chosen
};

Choice choose(const EvalTextRequest& request, const std::string& run) {
  Choice choice{.config = {}, .split = request.split};
  TrainConfig& c = choice.config;
  if (!run.empty()) c = read_run_config(run + "/config.json").train;
  const int64_t seed = request.seed.value_or(1);
  if (request.data.empty()) {
    choice.role = TextRole::trained;
  } else {
    const TrainedText text = run.empty() ? TrainedText{} : find_trained_text(run, c, request.data, seed);
    choice.role = text.role;
    if (text.role == TextRole::trained) c.data = text.data;
  }
  if (choice.role != TextRole::trained) {
    c.data = request.data;
    c.val_data.clear();
    c.seed = seed;
    if (run.empty()) c.val_fraction = kValFraction;
    if (choice.split.empty()) choice.split = "all";
  }
  if (request.val_fraction) c.val_fraction = *request.val_fraction;
  if (choice.split == "all") c.val_fraction = 0;
  if (choice.split == "train" || choice.split == "all") c.val_data.clear();
  c.eval_every = 0;  // any length will do
  return choice;
}

std::string note_of(const EvalText& text, const Choice& choice, const EvalTextRequest& request) {
  const std::string name = named(choice.config.data);
  if (choice.role == TextRole::validation) return fmt::format("{} is the run's validation text\n", name);
  if (choice.role == TextRole::part)
    return fmt::format(
        "note: {} has text that the run was trained on, so its loss says little of new text; without --data "
        "the "
        "part that the run held out is taken\n",
        name);
  if (choice.role != TextRole::trained) return "";
  if (request.split.empty() && text.split == "all")
    return fmt::format(
        "note: the run was trained on {} and held nothing out: the loss is that of known text\n", name);
  if (!request.split.empty() || text.split != "val") return "";
  if (!choice.config.val_data.empty())
    return fmt::format(
        "the run's validation text is taken, {}: {} tokens; --split train takes what it was "
        "trained on\n",
        named(choice.config.val_data), format_thousands(text.tokens.size()));
  return fmt::format(
      "the run was trained on {}: the part that it held out is taken, the last {} of {} tokens; --split all "
      "takes "
      "everything\n",
      name, format_thousands(text.tokens.size()),
      format_thousands(text.data.train.size() + text.data.val.size()));
}

}  // namespace

EvalText load_eval_text(const EvalTextRequest& request, const std::string& model, const LoadedModel& loaded) {
  if (!request.split.empty()) check_choice("--split", request.split, {"all", "train", "val"});
  const std::string run = find_run(model);
  if (request.seed.value_or(1) < 0)
    fail_usage("--seed: expected a number of at least 0, found {}", *request.seed);
  Choice choice = choose(request, run);
  std::string tokenizer = loaded.gguf() != nullptr ? loaded.gguf()->path() : loaded.folder();
  if (!request.tokenizer.empty()) {
    choice.config.tokenizer = request.tokenizer;
    tokenizer.clear();
  }
  EvalText text{.data = load_run_data(choice.config, 1, tokenizer),
                .tokens = {},
                .split = choice.split,
                .floor = {},
                .note = ""};
  RunData& data = text.data;
  text.trained = choice.role == TextRole::trained;
  if (text.split.empty()) text.split = data.has_val() ? "val" : "all";
  if (text.split == "val" && !data.has_val())
    fail("{} has no validation part: --val-fraction is {}; name a --val-fraction above 0, or --split all",
         named(choice.config.data), choice.config.val_fraction);
  text.tokens = text.split == "val" ? data.val : data.train;
  if (data.floor && data.train.text_bytes() > 0)
    text.floor =
        *data.floor * static_cast<double>(data.train.size()) / static_cast<double>(data.train.text_bytes());
  text.note = note_of(text, choice, request);
  return text;
}

}  // namespace gpt

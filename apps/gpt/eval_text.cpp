#include "eval_text.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "io/gguf.h"
#include "options.h"
#include "run/trained_text.h"

namespace gpt {
namespace {

constexpr double kValFraction = 0.1;

std::string named(const std::vector<std::string>& names) {
  return format_list(names, 1);
}

// The text to load and what is known about it.
struct Choice {
  TrainConfig config;
  TrainConfig run;    // config of the model's run, if it has one
  TrainedText text;   // role of the text in that run
  std::string split;  // "": not chosen yet
};

void choose_run_text(const EvalTextRequest& request, Choice& choice) {
  TrainConfig& c = choice.config;
  c.data = choice.text.data;
  if (!c.val_data.empty()) {
    if (request.val_fraction)
      fail_usage("--val-fraction: the run has a separate validation text, {}", named(c.val_data));
    c.val_fraction = 0;
  }
  if (request.val_fraction || !request.tokenizer.empty() || choice.split == "all") choice.text.loaded.reset();
}

Choice choose(const EvalTextRequest& request, const std::string& run) {
  Choice choice{.config = {}, .run = {}, .text = {}, .split = request.split};
  TrainConfig& c = choice.config;
  const int64_t seed = request.seed.value_or(1);
  if (!run.empty()) {
    c = choice.run = settings_of_run(run);
    if (request.field.empty() || request.field == c.field)
      choice.text = find_trained_text(run, c, request.data, seed);
  } else {
    c.val_fraction = kValFraction;
  }
  if (choice.text.role == TextRole::trained) {
    choose_run_text(request, choice);
  } else {
    if (!request.field.empty()) c.field = request.field;
    if (!request.data.empty()) {
      c.data = request.data;
      c.seed = seed;
      c.include = request.filter.include;
      c.exclude = request.filter.exclude;
    }
    c.val_data.clear();
    if (choice.split.empty()) choice.split = "all";
  }
  if (request.val_fraction) c.val_fraction = *request.val_fraction;
  if (choice.split == "all") c.val_fraction = 0;
  if (choice.split == "train" || choice.split == "all") c.val_data.clear();
  c.eval_every = 0;  // disables the check for a minimum length
  return choice;
}

std::string part_of(const EvalText& text) {
  const char* which = text.data.tokens.size() > 1 ? "the end of each text, together {} of {} tokens"
                                                  : "the last {} of {} tokens";
  return fmt::format(fmt::runtime(which), format_thousands(text.tokens.size()),
                     format_thousands(text.data.train.size() + text.data.val.size()));
}

// Returns the note for a --val-fraction that differs from the fraction that the run held out.
std::string fraction_note(const EvalText& text, const Choice& choice, double fraction) {
  const double held_out = choice.run.val_fraction;
  const std::string before =
      held_out > 0 ? fmt::format("held out {} of it", held_out) : std::string("held nothing out");
  const std::string name = named(choice.config.data);
  if (text.split == "all")
    return fmt::format("note: the run was trained on {} and {}; use --val-fraction 0 for all of it\n", name,
                       before);
  if (fraction < held_out)
    return fmt::format("the run was trained on {} and {}; using {} with --val-fraction {}\n", name, before,
                       part_of(text), fraction);
  return fmt::format(
      "note: the run was trained on {} and {}; using {} with --val-fraction {}, which includes training "
      "text\n",
      name, before, part_of(text), fraction);
}

std::string own_text_note(const EvalText& text, const Choice& choice, const EvalTextRequest& request) {
  const std::string name = named(choice.config.data);
  if (text.split == "val" || request.split.empty()) {
    if (request.val_fraction && *request.val_fraction != choice.run.val_fraction)
      return fraction_note(text, choice, *request.val_fraction);
  }
  if (request.split.empty() && text.split == "all")
    return fmt::format("note: the run was trained on all of {}, so the loss is that of training text\n",
                       name);
  if (text.split != "val") return "";
  const std::vector<std::string>& val = choice.config.val_data;
  if (choice.text.val_changed)
    return fmt::format("note: {} has changed since the run was validated on it\n",
                       val.empty() ? "the end of " + name : named(val));
  if (!request.split.empty()) return "";
  if (!val.empty())
    return fmt::format(
        "using the validation text of the run, {}: {} tokens; use --split train for its training text\n",
        named(val), format_thousands(text.tokens.size()));
  return fmt::format(
      "the run was trained on {}; using its validation part, {}; use --split all for all of it\n", name,
      part_of(text));
}

// Returns the note for a text with the name of the run's validation text.
std::string validation_note(const EvalText& text, const Choice& choice, const EvalTextRequest& request,
                            const std::string& run) {
  const std::string name = named(choice.config.data);
  const std::optional<DataIdentity> known = known_data(run);
  if (request.tokenizer.empty() && text.split == "all" && known && !known->val.empty() &&
      known->val != identity_of(text.tokens))
    return fmt::format("note: {} has changed since the run was validated on it\n", name);
  return fmt::format("{} is the run's validation text\n", name);
}

std::string note_of(const EvalText& text, const Choice& choice, const EvalTextRequest& request,
                    const std::string& run) {
  const std::string name = named(choice.config.data);
  if (choice.text.changed)
    return fmt::format("note: {} differs from the training text of the same name: {}\n", name,
                       text.split == "all" ? "all of it is used" : "it is evaluated like any other text");
  switch (choice.text.role) {
    case TextRole::trained:
      return own_text_note(text, choice, request);
    case TextRole::validation:
      return validation_note(text, choice, request, run);
    case TextRole::part:
      if (is_tuning_run(run))
        return fmt::format("note: {} contains training examples of the run, and is read as plain text\n",
                           name);
      return fmt::format(
          "note: {} contains training text of the run, so its loss does not measure performance on new text; "
          "without --data, the validation part is used\n",
          name);
    case TextRole::other:
      break;
  }
  return "";
}

// Returns the note about files that were named twice. load_run_data cannot write it for the run's own text,
// which is loaded by the names in the run's config.
std::string repeated_files(const std::vector<std::string>& names) {
  NamedFiles named;
  for (const std::string& name : names) {
    if (path_exists(name)) named.add(name);
  }
  return named.notes();
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
  EvalText text{.data = choice.text.loaded ? std::move(*choice.text.loaded)
                                           : load_run_data(choice.config, 1, tokenizer),
                .tokens = {},
                .split = choice.split,
                .floor = {},
                .note = ""};
  RunData& data = text.data;
  text.trained = choice.text.role == TextRole::trained;
  if (text.split.empty()) text.split = data.has_val() ? "val" : "all";
  if (text.split == "val" && !data.has_val())
    fail("{} has no validation part: --val-fraction is {}; name a --val-fraction above 0, or --split all",
         named(choice.config.data), choice.config.val_fraction);
  const bool more_than_held_out =
      text.split != "val" || (request.val_fraction && *request.val_fraction > choice.run.val_fraction);
  text.seen = choice.text.role == TextRole::part || (text.trained && more_than_held_out);
  text.tokens = text.split == "val" ? data.val : data.train;
  if (data.floor && data.train.text_bytes() > 0)
    text.floor =
        *data.floor * static_cast<double>(data.train.size()) / static_cast<double>(data.train.text_bytes());
  if (text.trained) text.note = repeated_files(request.data);
  text.note += note_of(text, choice, request, run);
  return text;
}

}  // namespace gpt

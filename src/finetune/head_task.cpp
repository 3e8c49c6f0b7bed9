#include "finetune/head_task.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "data/token_hash.h"
#include "data/unknown_tokens.h"
#include "data/weighted_name.h"
#include "distributed/shares.h"
#include "finetune/example_order.h"
#include "finetune/head_files.h"
#include "finetune/json_lines.h"
#include "finetune/scores.h"
#include "finetune/shared_examples.h"
#include "finetune/tune_config.h"

namespace gpt {
namespace {

// Returns the weight of the head, which is the only parameter of the objective.
const TensorView& head_weight(const Model& model) {
  return model.weights[static_cast<size_t>(model.table.model_count())];
}

constexpr int64_t kRowsOf = 8;  // the length of rows is rounded up to a multiple of this

void check_options(const HeadTaskOptions& o, const ModelConfig& c) {
  if (!(o.aux_weight >= 0 && std::isfinite(o.aux_weight)))
    fail_parameter("aux_weight", "expected a number of at least 0, found {}", o.aux_weight);
  if (!(o.head_dropout >= 0 && o.head_dropout < 1))
    fail_parameter("head_dropout", "expected 0 or more and less than 1, found {}", o.head_dropout);
  if (o.max_length != 0 && (o.max_length < 8 || o.max_length > c.n_ctx))
    fail_parameter("n_ctx", "expected 8 to {}, the model's context length, found {}", c.n_ctx, o.max_length);
  if (c.n_ctx < 8)
    fail(
        "a model with a context of {} tokens is too small for a task; use a model with a context of at least "
        "8 tokens",
        c.n_ctx);
  for (size_t i = 0; i < o.labels.size(); ++i) {
    if (std::ranges::count(o.labels, o.labels[i]) > 1)
      fail_parameter("labels", "expected every label once, found {} twice", printable(o.labels[i]));
  }
  if (o.kind != TaskKind::choose && o.labels.size() == 1)
    fail_parameter("labels", "expected at least 2 labels, found only {}", printable(o.labels[0]));
  if (o.kind == TaskKind::choose && !(o.labels.empty() && o.class_weights.empty() && !o.balanced))
    fail_parameter(
        "labels", "`task` choose has no labels and no class weights; leave `labels` and `class_weights` out");
}

// Parses the config's class weights into `options`.
void read_class_weights(const std::vector<std::string>& texts, HeadTaskOptions& options) {
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    const auto weight =
        at == std::string::npos ? std::nullopt : parse_number<double>(std::string_view(text).substr(at + 1));
    if (text == "balanced") {
      options.balanced = true;
    } else if (weight) {
      if (!options.class_weights.emplace(text.substr(0, at), *weight).second)
        fail_parameter("class_weights", "expected every label once, found {} twice",
                       printable(text.substr(0, at)));
    } else {
      fail_parameter("class_weights", "expected LABEL=NUMBER or balanced, found {}", printable(text));
    }
  }
}

}  // namespace

HeadTask::HeadTask(const HeadTaskOptions& options, const ModelConfig& config,
                   std::shared_ptr<const Tokenizer> tokenizer)
    : options_(options), tokenizer_(std::move(tokenizer)) {
  check_options(options, config);
  ExampleSet train = read_examples(options.data, options.kind, options.skip_bad), val;
  const Labels labels = options.labels.empty() ? collect_labels(train.examples, options.kind)
                                               : Labels{.numbers = false, .names = options.labels};
  if (!options.val_data.empty()) {
    val = read_examples(options.val_data, options.kind, options.skip_bad);
  } else {
    hold_out(train.examples, val.examples, options_.val_fraction);
  }
  facts_ = {.kind = options.kind,
            .labels = labels,
            .choices = options.kind == TaskKind::choose ? std::ssize(train.examples[0].texts) - 1 : 0,
            .tokens = task_tokens(*tokenizer_)};
  if (!val.examples.empty() && val.examples[0].texts.size() != train.examples[0].texts.size())
    fail("{}: expected {} choices, the same number as {}", val.examples[0].place, facts_.choices,
         train.examples[0].place);
  facts_.max_length = options.max_length > 0 ? options.max_length : config.n_ctx;
  train_ = encode(std::move(train), *tokenizer_);
  if (!val.examples.empty()) val_ = encode(std::move(val), *tokenizer_);
  label_weights_ = weights_of_labels();
  n_ctx_ = std::min((longest_row() + kRowsOf - 1) / kRowsOf * kRowsOf, facts_.max_length);
  tokenizer_ = tokenizer_with_tokens(tokenizer_, facts_.tokens);
  HeadShape shape = facts_.shape();
  shape.dropout = options.head_dropout;
  shape.auxiliary = options.aux_weight > 0;
  objective_ = std::make_unique<HeadObjective>(shape);
}

void HeadTask::adapt(ModelConfig& config) const {
  const TaskTokens& t = facts_.tokens;
  config.vocab_size = std::max<int64_t>(config.vocab_size, std::max({t.start, t.delimiter, t.extract}) + 1);
}

HeadTask::Split HeadTask::encode(ExampleSet set, const Tokenizer& tokenizer) const {
  const std::vector<float> labels = label_values(set, facts_.kind, facts_.labels, options_.skip_bad);
  Split split{.skipped = set.skipped, .first_problem = set.first_problem};
  for (size_t i = 0; i < labels.size(); ++i) {
    const Example& example = set.examples[i];
    try {
      EncodedExample encoded =
          encode_example(example, facts_.kind, tokenizer, facts_.tokens, facts_.max_length);
      if (encoded.cut && options_.long_examples == LongExamples::refuse) {
        fail_record(
            "{}: example is longer than {} tokens including the task tokens; shorten it, or set "
            "`long_examples` cut",
            example.place, facts_.max_length);
      }
      split.cut += encoded.cut ? 1 : 0;
      split.examples.push_back(std::move(encoded));
    } catch (const RecordError& error) {
      if (!options_.skip_bad) throw;
      if (split.skipped++ == 0) split.first_problem = error.what();
      continue;
    }
    split.labels.push_back(labels[i]);
    split.places.push_back(example.place);
  }
  if (split.examples.empty()) {
    const bool held_out = !train_.examples.empty() && !options_.val_data.empty();
    fail_without_examples(held_out ? options_.val_data : options_.data, {split.skipped, split.first_problem});
  }
  return split;
}

std::vector<float> HeadTask::weights_of_labels() const {
  const std::vector<std::string>& names = facts_.labels.names;
  if (options_.class_weights.empty() && !options_.balanced) return {};
  if (names.empty())
    fail_parameter("class_weights", "numeric labels cannot have weights; leave `class_weights` out");
  std::vector<float> weights(names.size(), 1);
  if (options_.balanced) {
    std::fill(weights.begin(), weights.end(), 0.0f);
    for (const float label : train_.labels)
      ++weights[static_cast<size_t>(label)];
    for (float& w : weights) {
      if (w > 0) w = static_cast<float>(train_.labels.size()) / (static_cast<float>(names.size()) * w);
    }
  }
  for (const auto& [name, weight] : options_.class_weights) {
    const std::optional<float> at = facts_.labels.value(name);
    if (!at) fail_parameter("class_weights", "unknown label {}{}", name, did_you_mean(name, names));
    if (!(weight >= 0 && weight < kMostWeight))
      fail_parameter("class_weights", "expected a weight of at least 0 and less than {:g} for {}, found {}",
                     kMostWeight, name, weight);
    weights[static_cast<size_t>(*at)] = static_cast<float>(weight);
  }
  const auto counts = [&](float label) { return weights[static_cast<size_t>(label)] > 0; };
  if (std::ranges::none_of(train_.labels, counts))
    fail_parameter(
        "class_weights",
        "expected a positive weight for at least one label of the training examples, found only 0");
  return weights;
}

int64_t HeadTask::longest_row() const {
  size_t longest = 0;
  for (const Split* split : {&train_, &val_}) {
    for (const EncodedExample& example : split->examples) {
      for (const auto& row : example.rows)
        longest = std::max(longest, row.size());
    }
  }
  return static_cast<int64_t>(longest);
}

int64_t HeadTask::samples() const {
  return std::ssize(train_.examples) * objective_->group();
}

double HeadTask::example_weight(float label) const {
  return label_weights_.empty() ? 1 : double{label_weights_[static_cast<size_t>(label)]};
}

// Fills one row of a batch. The targets of the language model loss are all tokens except the first. The
// weights of a row add up to the example's weight divided by its number of rows, regardless of the row's
// length (as in the program of the GPT-1 paper).
void HeadTask::fill_row(const std::vector<int32_t>& row, double weight, int32_t* ids, int32_t* targets,
                        float* weights) const {
  const int64_t length = std::ssize(row);
  std::copy_n(row.data(), length, ids);
  std::fill(ids + length, ids + n_ctx_, facts_.tokens.start);
  std::fill_n(targets, n_ctx_, -1);
  const auto aux = static_cast<float>(options_.aux_weight * weight /
                                      static_cast<double>((length - 1) * objective_->group()));
  for (int64_t t = 0; t + 1 < length; ++t) {
    targets[t] = options_.aux_weight > 0 ? row[static_cast<size_t>(t + 1)] : -1;
    weights[t] = aux;
  }
  weights[length - 1] = static_cast<float>(weight);
}

void HeadTask::fill(int64_t step, int64_t first, int64_t rows, const TrainStep::Samples& samples) const {
  const int64_t group = objective_->group();
  const ExampleOrder order(std::ssize(train_.examples), options_.seed);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t sample = step * batch_size_ + first + row;
    const auto at = static_cast<size_t>(order(sample / group));
    samples.labels[row] = train_.labels[at];
    fill_row(train_.examples[at].rows[static_cast<size_t>(sample % group)], example_weight(train_.labels[at]),
             samples.ids + row * n_ctx_, samples.targets + row * n_ctx_, samples.weights + row * n_ctx_);
  }
}

double HeadTask::loss_of(const Outputs& outputs, float label) const {
  if (facts_.labels.numbers) return (outputs[0] - label) * (outputs[0] - label);
  return -std::log(std::max(probabilities(outputs)[static_cast<size_t>(label)], 1e-300));
}

// Returns the outputs of all held-out examples. The batches are divided among the ranks.
std::optional<std::vector<Outputs>> HeadTask::read_held_out(Classifier& classifier,
                                                            const std::function<bool()>& interrupted) const {
  const std::span examples = val_.examples;
  constexpr int64_t kBatch = Classifier::kBatch;
  const auto outputs_of = [&](int64_t batch) {
    const auto at = static_cast<size_t>(batch * kBatch);
    const size_t n = std::min<size_t>(kBatch, examples.size() - at);
    std::vector<double> all;
    for (const Outputs& outputs : classifier.read(examples.subspan(at, n)))
      all.insert(all.end(), outputs.begin(), outputs.end());
    return all;
  };
  const auto all = compute_in_shares(*processes, (std::ssize(examples) + kBatch - 1) / kBatch, outputs_of,
                                     interrupted, "evaluation");
  if (!all) return std::nullopt;
  const int64_t width = std::ssize(*all) / std::ssize(examples);
  return transformed_indices(std::ssize(examples), [&](int64_t i) {
    return Outputs(all->begin() + i * width, all->begin() + (i + 1) * width);
  });
}

std::optional<TaskScore> HeadTask::evaluate(const Model& model, const Backend& backend,
                                            const std::function<bool()>& interrupted) const {
  Classifier classifier(model, backend, facts_,
                        model.weights[static_cast<size_t>(model.table.model_count())]);
  const std::optional<std::vector<Outputs>> read = read_held_out(classifier, interrupted);
  if (!read) return std::nullopt;
  const std::vector<Outputs>& outputs = *read;
  TaskScore score;
  double weight = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const double w = example_weight(val_.labels[i]);
    score.loss += w * loss_of(outputs[i], val_.labels[i]);
    weight += w;
  }
  if (weight > 0) score.loss /= weight;
  add_scores(outputs, score);
  score.predictions = predictions_csv(outputs);
  return score;
}

void HeadTask::add_scores(const std::vector<Outputs>& outputs, TaskScore& score) const {
  if (facts_.labels.numbers) {
    const std::vector<double> answers = transformed(outputs, [](const Outputs& o) { return o[0]; });
    const std::vector<double> truths(val_.labels.begin(), val_.labels.end());
    score.metrics = {{"pearson", pearson(answers, truths)}, {"spearman", spearman(answers, truths)}};
  } else {
    const std::vector<std::string> names = output_names(facts_, outputs[0].size());
    Confusion confusion(std::ssize(names));
    for (size_t i = 0; i < outputs.size(); ++i)
      confusion.add(static_cast<int64_t>(val_.labels[i]), best_output(outputs[i]));
    score.metrics = {{"accuracy", accuracy(confusion)},
                     {"macro_f1", macro_f1(confusion)},
                     {"matthews", matthews(confusion)}};
    score.text = confusion_text(confusion, names);
  }
  const auto& [name, value] = score.metrics[0];
  score.criterion_name = "1 - " + name;
  score.criterion = 1 - value;
  std::string line = fmt::format("held-out loss {:.4f}", score.loss);
  for (const auto& [metric, x] : score.metrics)
    line += fmt::format(", {} {:.4f}", metric, x);
  score.text = line + (score.text.empty() ? "" : "\n" + score.text.substr(0, score.text.size() - 1));
}

std::string HeadTask::predictions_csv(const std::vector<Outputs>& outputs) const {
  const bool numbers = facts_.labels.numbers;
  const std::vector<std::string> names = output_names(facts_, outputs[0].size());
  std::string text = "example,label,prediction";
  for (const std::string& name : names)
    text += "," + csv_cell("p(" + name + ")");
  text += "\n";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const float label = val_.labels[i];
    const auto name = [&](int64_t k) { return csv_cell(names[static_cast<size_t>(k)]); };
    text += csv_cell(val_.places[i]) + ",";
    if (numbers) {
      text += fmt::format("{},{}\n", label, outputs[i][0]);
      continue;
    }
    text += name(static_cast<int64_t>(label)) + "," + name(best_output(outputs[i]));
    for (const double p : probabilities(outputs[i]))
      text += fmt::format(",{:.6g}", p);
    text += "\n";
  }
  return text;
}

void HeadTask::write_files(const std::string& folder, const Model& model) const {
  const HeadFiles head = head_files(facts_, model.config, head_weight(model));
  write_model(folder, model, model.weights, {.head = &head});
  write_file_atomic(folder + "/" + kTaskFile, task_json(facts_));
}

void HeadTask::go_on_from(const TaskHead& head) {
  const bool same = head.facts.kind == facts_.kind && head.facts.choices == facts_.choices &&
                    head.facts.labels.names == facts_.labels.names &&
                    head.facts.labels.numbers == facts_.labels.numbers;
  if (same) first_head_ = head.weight;
  head_note_ = same ? "training continues with the model's head\n"
                    : "note: the model's head is for a different task or different labels; training starts "
                      "with a new head\n";
}

void HeadTask::begin(const Model& model, const Backend&, bool resumed) {
  if (resumed || first_head_.empty()) return;
  const MappedView head(head_weight(model), Access::write);
  GPT_ASSERT(head->size() == std::ssize(first_head_));
  std::ranges::copy(first_head_, head->as<float>());
}

DataIdentity HeadTask::identity() const {
  const auto hash = [](const Split& split) {
    std::string bytes;
    for (size_t i = 0; i < split.examples.size(); ++i) {
      bytes.append(reinterpret_cast<const char*>(&split.labels[i]), sizeof(float));
      for (const auto& row : split.examples[i].rows)
        bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(int32_t));
    }
    return hex_hash(bytes);
  };
  return {.tokens = samples() * n_ctx_,
          .train = hash(train_),
          .val = hash(val_),
          .tokenizer = hex_hash(tokenizer_->to_json())};
}

std::string HeadTask::describe() const {
  std::string text =
      head_note_ +
      fmt::format(
          "{} for training, {} held out; rows of up to {} tokens; {}\n",
          format_amount(std::ssize(train_.examples), "example"), val_.examples.size(), n_ctx_,
          facts_.labels.numbers
              ? "labels are numbers"
              : "labels " + format_list(output_names(facts_, static_cast<size_t>(facts_.choices)), 10));
  text += note_shared_examples(train_.examples, val_.examples, [](const EncodedExample& example) {
    std::vector<int32_t> ids;
    for (const std::vector<int32_t>& row : example.rows)
      ids.insert(ids.end(), row.begin(), row.end());
    return ids;
  });
  UnknownTokens unknown(*tokenizer_);
  for (const Split* split : {&train_, &val_}) {
    for (const EncodedExample& example : split->examples) {
      for (const std::vector<int32_t>& row : example.rows)
        unknown.add(row);
    }
    if (split->skipped > 0)
      text += fmt::format("{} skipped; first error: {}\n", format_amount(split->skipped, "invalid example"),
                          split->first_problem);
    if (split->cut > 0)
      text += fmt::format("{} longer than {} tokens: truncated at {}\n", format_amount(split->cut, "example"),
                          facts_.max_length, cut_part(facts_.kind));
  }
  return text + unknown.note();
}

std::unique_ptr<Task> make_head_task(TaskKind kind, const TaskSources& sources) {
  const TuneConfig& c = sources.config;
  HeadTaskOptions options{.kind = kind,
                          .data = c.train().data,
                          .val_data = c.train().val_data,
                          .val_fraction = c.train().val_fraction,
                          .labels = c.labels,
                          .aux_weight = c.aux_weight,
                          .head_dropout = c.head_dropout,
                          .skip_bad = c.skip_bad,
                          .max_length = c.n_ctx,
                          .seed = static_cast<uint64_t>(c.train().seed)};
  read_class_weights(c.class_weights, options);
  if (c.long_examples != "cut" && c.long_examples != "refuse")
    fail_parameter("long_examples", "expected cut or refuse, found {}", printable(c.long_examples));
  if (c.long_examples == "refuse") options.long_examples = LongExamples::refuse;
  auto task = std::make_unique<HeadTask>(options, sources.model, sources.tokenizer);
  const bool resumed = sources.base.folder() == sources.out + "/last";
  if (!resumed && has_head(sources.base.folder())) task->go_on_from(read_head(sources.base));
  return task;
}

}  // namespace gpt

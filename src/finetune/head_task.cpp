#include "finetune/head_task.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "data/loader.h"
#include "finetune/head_files.h"
#include "finetune/scores.h"

namespace gpt {
namespace {

constexpr int64_t kRowsOf = 8;  // rows are as long as a multiple of this

void check_options(const HeadTaskOptions& o, const ModelConfig& c) {
  if (!(o.aux_weight >= 0 && std::isfinite(o.aux_weight)))
    fail_parameter("aux_weight", "expected a number of at least 0, found {}", o.aux_weight);
  if (!(o.head_dropout >= 0 && o.head_dropout < 1))
    fail_parameter("head_dropout", "expected 0 or more and less than 1, found {}", o.head_dropout);
  if (o.val_data.empty() && !(o.val_fraction > 0 && o.val_fraction < 1))
    fail_parameter("val_fraction", "expected more than 0 and less than 1, found {}; or give --val-data",
                   o.val_fraction);
  if (o.max_length != 0 && (o.max_length < 8 || o.max_length > c.n_ctx))
    fail_parameter("max_length", "expected 8 to the model's context of {}, found {}", c.n_ctx, o.max_length);
  if (c.n_ctx < 8) fail("a model with a context of {} tokens is too small for a task", c.n_ctx);
  if (o.kind == TaskKind::choose && !(o.labels.empty() && o.class_weights.empty() && !o.balanced))
    fail_parameter("labels", "choose has no labels but its choices, and no weights for them");
}

// The step in the order of an epoch: which example is the n-th since the beginning.
int64_t shuffled(int64_t n, int64_t examples, uint64_t seed) {
  return KeyedPermutation(examples, seed, static_cast<uint64_t>(n / examples))(n % examples);
}

}  // namespace

HeadTask::HeadTask(const HeadTaskOptions& options, const ModelConfig& config, const Tokenizer& tokenizer)
    : options_(options), config_(config) {
  check_options(options, config);
  ExampleSet train = read_examples(options.data, options.kind, options.skip_bad);
  ExampleSet val = options.val_data.empty() ? held_out(train)
                                            : read_examples(options.val_data, options.kind, options.skip_bad);
  facts_ = {.kind = options.kind,
            .labels = options.labels.empty() ? collect_labels(train.examples, options.kind)
                                             : Labels{.numbers = false, .names = options.labels},
            .choices = options.kind == TaskKind::choose ? std::ssize(train.examples[0].texts) - 1 : 0,
            .tokens = task_tokens(tokenizer)};
  if (val.examples[0].texts.size() != train.examples[0].texts.size())
    fail("{}: expected {} choices, as {} has", val.examples[0].place, facts_.choices,
         train.examples[0].place);
  const TaskTokens& t = facts_.tokens;
  config_.vocab_size = std::max<int64_t>(config.vocab_size, std::max({t.start, t.delimiter, t.extract}) + 1);
  tokenizer_json_ = tokenizer_with_tokens(tokenizer, t);
  facts_.max_length = options.max_length > 0 ? options.max_length : config.n_ctx;
  train_ = encode(std::move(train), tokenizer);
  val_ = encode(std::move(val), tokenizer);
  label_weights_ = weights_of_labels();
  n_ctx_ = std::min((longest_row() + kRowsOf - 1) / kRowsOf * kRowsOf, facts_.max_length);
  HeadShape shape = facts_.shape();
  shape.dropout = options.head_dropout;
  shape.auxiliary = options.aux_weight > 0;
  objective_ = std::make_unique<HeadObjective>(shape);
}

// Every so many-th example, so that nothing depends on the order of labels in a file.
ExampleSet HeadTask::held_out(ExampleSet& train) const {
  const auto n = std::ssize(train.examples);
  const auto wanted = std::clamp<int64_t>(std::llround(options_.val_fraction * static_cast<double>(n)), 1, n);
  if (wanted == n)
    fail("{}: {} is too few to hold out a part of them; add examples, or name others with --val-data",
         options_.data[0], format_amount(n, "example"));
  ExampleSet val;
  std::vector<Example> rest;
  const KeyedPermutation order(n, options_.seed, ~uint64_t{0});
  for (int64_t i = 0; i < n; ++i) {
    Example& example = train.examples[static_cast<size_t>(i)];
    (order(i) < wanted ? val.examples : rest).push_back(std::move(example));
  }
  train.examples = std::move(rest);
  return val;
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
        fail_record("{}: longer than {} tokens with those around it; cut it, or let long examples be cut",
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
  if (split.examples.empty()) fail("no example can be read; {}", split.first_problem);
  return split;
}

std::vector<float> HeadTask::weights_of_labels() const {
  const std::vector<std::string>& names = facts_.labels.names;
  if (options_.class_weights.empty() && !options_.balanced) return {};
  if (names.empty()) fail_parameter("class_weights", "labels that are numbers have no weights");
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
    if (!at) fail_parameter("class_weights", "there is no label {}{}", name, did_you_mean(name, names));
    if (!(weight >= 0 && std::isfinite(weight)))
      fail_parameter("class_weights", "expected {} to have a weight of at least 0, found {}", name, weight);
    weights[static_cast<size_t>(*at)] = static_cast<float>(weight);
  }
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

int64_t HeadTask::train_samples() const {
  return std::ssize(train_.examples) * objective_->group();
}

double HeadTask::example_weight(float label) const {
  return label_weights_.empty() ? 1 : double{label_weights_[static_cast<size_t>(label)]};
}

// The language model learns every token behind the first; each row counts as one example divided by its
// rows, whatever its length (as the program of the GPT-1 paper does).
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

void HeadTask::fill(int64_t step, int64_t first, int64_t rows, int64_t batch_size,
                    const TrainStep::Samples& samples) const {
  const int64_t group = objective_->group(), examples = std::ssize(train_.examples);
  GPT_ASSERT(first % group == 0 && rows % group == 0 && batch_size % group == 0);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t sample = step * batch_size + first + row;
    const auto at = static_cast<size_t>(shuffled(sample / group, examples, options_.seed));
    const float label = train_.labels[at];
    samples.labels[row] = label;
    fill_row(train_.examples[at].rows[static_cast<size_t>(sample % group)], example_weight(label),
             samples.ids + row * n_ctx_, samples.targets + row * n_ctx_, samples.weights + row * n_ctx_);
  }
}

double HeadTask::loss_of(const Outputs& outputs, float label) const {
  if (facts_.labels.numbers) return (outputs[0] - label) * (outputs[0] - label);
  return -std::log(std::max(probabilities(outputs)[static_cast<size_t>(label)], 1e-300));
}

TaskScore HeadTask::evaluate(const Model& model, const Backend& backend,
                             const std::function<bool()>& interrupted) const {
  Classifier classifier(model, backend, facts_,
                        model.weights[static_cast<size_t>(model.table.model_count())]);
  std::vector<Outputs> outputs;
  const std::span examples = val_.examples;
  for (size_t at = 0; at < examples.size(); at += Classifier::kBatch) {
    if (interrupted()) return {};
    const size_t n = std::min<size_t>(Classifier::kBatch, examples.size() - at);
    std::ranges::move(classifier.read(examples.subspan(at, n)), std::back_inserter(outputs));
  }
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
  score.best_name = score.metrics[0].first;
  score.best_value = score.metrics[0].second;
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

void HeadTask::write_files(const std::string& folder, const Model& model, const ParamBuffer& weights) const {
  const HeadFiles head = head_files(facts_, model.config, weights[model.table.model_count()]);
  write_model(folder, model, weights.views(), {.head = &head});
  write_file_atomic(folder + "/" + kTaskFile, task_json(facts_));
}

std::string HeadTask::describe() const {
  std::string text = fmt::format(
      "{} to learn from, {} held out; rows of up to {} tokens; {}\n",
      format_amount(std::ssize(train_.examples), "example"), val_.examples.size(), n_ctx_,
      facts_.labels.numbers
          ? "labels are numbers"
          : "labels " + format_list(output_names(facts_, static_cast<size_t>(facts_.choices)), 10));
  for (const Split* split : {&train_, &val_}) {
    if (split->skipped > 0)
      text += fmt::format("{} left out, the first: {}\n", format_amount(split->skipped, "bad example"),
                          split->first_problem);
    if (split->cut > 0)
      text += fmt::format("{} longer than {} tokens: the longer text of each loses its end\n",
                          format_amount(split->cut, "example"), facts_.max_length);
  }
  return text;
}

}  // namespace gpt

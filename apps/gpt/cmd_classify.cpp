#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/printable.h"
#include "command.h"
#include "finetune/head_files.h"
#include "finetune/scores.h"
#include "input.h"
#include "options.h"
#include "output.h"

namespace gpt {
namespace {

constexpr const char* kClassifyFooter = R"(Examples:
  gpt classify run "A fine book."
  gpt classify run < lines.txt
  gpt classify run --data test.jsonl > labels.jsonl
  tail -f log.txt | gpt classify run --plain

MODEL is what gpt finetune --task classify|entail|similar|choose has made. For each input there is one line
{"label": ..., "probabilities": {...}}, in order; {"label": NUMBER} where labels are numbers. A line that begins
with { is a JSON object with the keys of the task: text; premise and hypothesis; text1 and text2; context and
choices. Any other line is the text itself, also a blank one. .csv and .tsv have these keys as the names of their
columns. Inputs with a "label" are scored: accuracy, macro F1 and Matthews' correlation on standard error.)";

struct ClassifyArguments {
  std::string model, data, tokenizer, dtype = "fp32";
  std::vector<std::string> texts;
  bool plain = false, skip_bad = false, show_ids = false;
  MachineOptions machine;
};

using Json = nlohmann::ordered_json;

// An input, or the problem with it.
struct Input {
  std::optional<EncodedExample> example;
  // Value of the label, if there is one: the index of the class or choice, or the number.
  std::optional<float> truth;
  std::string problem;
};

// Compares predictions with the labels of the inputs that have a label.
class LabelScores {
 public:
  explicit LabelScores(const HeadFacts& facts) : facts_(facts) {}

  // Returns the value of an example's label. All labels that the head does not know share one extra class,
  // after the known classes. Throws RecordError if the label should be a number but is not.
  std::optional<float> truth(const Example& example) {
    if (!example.label) return {};
    if (facts_.kind == TaskKind::choose) return parse_number<float>(*example.label);
    if (const std::optional<float> value = facts_.labels.value(*example.label)) return value;
    if (facts_.labels.numbers)
      fail_record("{}: expected \"label\" to be a number, found {}", example.place,
                  printable(*example.label));
    if (unknown_++ == 0) first_unknown_ = example.place + " has " + printable(*example.label);
    return static_cast<float>(facts_.labels.names.size());
  }
  void add(float truth, const Outputs& outputs) {
    truths_.push_back(truth);
    answers_.push_back(facts_.labels.numbers ? outputs[0] : static_cast<double>(best_output(outputs)));
  }
  // Returns lines for people, or "" if no input had a label.
  std::string text() const {
    if (truths_.empty()) return "";
    std::string text = format_amount(std::ssize(truths_), "labelled input") + ": ";
    if (facts_.labels.numbers) {
      text += fmt::format("Pearson {:.4f}, Spearman {:.4f}", pearson(answers_, truths_),
                          spearman(answers_, truths_));
    } else {
      const Confusion table = confusion();
      text += fmt::format("accuracy {:.4f}, macro F1 {:.4f}, Matthews {:.4f}", accuracy(table),
                          macro_f1(table), matthews(table));
    }
    if (unknown_ > 0)
      text +=
          fmt::format("; {} unknown to the head, which {} as wrong; the first: {}",
                      format_amount(unknown_, "label"), unknown_ == 1 ? "counts" : "count", first_unknown_);
    return text + "\n";
  }

 private:
  Confusion confusion() const {
    const double most = std::max(std::ranges::max(truths_), std::ranges::max(answers_));
    Confusion table(static_cast<int64_t>(most) + 1);
    for (size_t i = 0; i < truths_.size(); ++i)
      table.add(static_cast<int64_t>(truths_[i]), static_cast<int64_t>(answers_[i]));
    return table;
  }

  const HeadFacts& facts_;
  std::vector<double> truths_, answers_;
  int64_t unknown_ = 0;
  std::string first_unknown_;
};

// Collects inputs, runs the classification head and writes the results in order of the inputs.
class Answers {
 public:
  Answers(const ClassifyArguments& a, Classifier& classifier, const Tokenizer& tokenizer)
      : a_(a), classifier_(classifier), tokenizer_(tokenizer), scores_(classifier.facts()) {}

  // Adds the input that `read` returns. Returns false if there are no more inputs. A RecordError thrown by
  // `read` only concerns this input.
  bool add(const std::function<std::optional<Example>()>& read) {
    Input input;
    try {
      const std::optional<Example> example = read();
      if (!example) return false;
      const HeadFacts& facts = classifier_.facts();
      EncodedExample encoded =
          encode_example(*example, facts.kind, tokenizer_, facts.tokens, facts.max_length);
      input.truth = scores_.truth(*example);
      input.example = std::move(encoded);
      cut_ += input.example->cut ? 1 : 0;
    } catch (const RecordError& error) {
      if (!a_.skip_bad) {
        flush();
        throw;
      }
      input.problem = error.what();
      ++bad_;
    }
    inputs_.push_back(std::move(input));
    if (std::ssize(inputs_) >= Classifier::kBatch) flush();
    return true;
  }
  // Adds a line of input. A blank line is an empty text.
  void add_line(std::string_view line, const std::string& place) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const TaskKind kind = classifier_.facts().kind;
    add([&]() -> Example {
      if (!a_.plain && line.starts_with('{')) return example_of_json(line, kind, false, place);
      if (kind != TaskKind::classify)
        fail_record("{}: expected a JSON object in the format of gpt finetune --task {}", place,
                    task_name(kind));
      return {.texts = {std::string(line)}, .label = {}, .place = place};
    });
  }

  void flush() {
    std::vector<EncodedExample> examples;
    for (const Input& input : inputs_) {
      if (input.example) examples.push_back(*input.example);
    }
    const std::vector<Outputs> outputs = classifier_.read(examples);
    std::string lines;
    size_t at = 0;
    for (const Input& input : inputs_) {
      Json line = {{"error", input.problem}};
      if (input.example) {
        line = answer(examples[at], outputs[at]);
        if (input.truth) scores_.add(*input.truth, outputs[at]);
        ++at;
      }
      lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    write_output(lines);
    inputs_.clear();
  }
  // Writes the remaining results. Notes how many inputs were truncated or unreadable, and how well the
  // predictions match the labels.
  void finish() {
    flush();
    if (cut_ > 0)
      write_note(fmt::format("{} longer than {} tokens; {} removed from each\n",
                             format_amount(cut_, "input was", "inputs were"), classifier_.facts().max_length,
                             cut_part(classifier_.facts().kind)));
    if (bad_ > 0) write_note(fmt::format("{} could not be read\n", format_amount(bad_, "input")));
    if (const std::string text = scores_.text(); !text.empty()) write_note(text);
  }

 private:
  Json answer(const EncodedExample& example, const Outputs& outputs) const {
    const HeadFacts& facts = classifier_.facts();
    Json line;
    if (facts.labels.numbers) {
      line["label"] = outputs[0];
    } else {
      const std::vector<std::string> names = output_names(facts, outputs.size());
      const std::vector<double> p = probabilities(outputs);
      const auto best = static_cast<size_t>(best_output(outputs));
      line["label"] = facts.kind == TaskKind::choose ? Json(best) : Json(names[best]);
      for (size_t i = 0; i < p.size(); ++i)
        line["probabilities"][names[i]] = p[i];
    }
    if (a_.show_ids) {
      line["outputs"] = outputs;
      line["ids"] = example.rows;
    }
    return line;
  }

  const ClassifyArguments& a_;
  Classifier& classifier_;
  const Tokenizer& tokenizer_;
  LabelScores scores_;
  std::vector<Input> inputs_;
  int64_t cut_ = 0, bad_ = 0;
};

void read_data_file(const std::string& path, TaskKind kind, Answers& answers) {
  if (RecordReader::is_table(path)) {
    ExampleReader reader(path, kind, false);
    while (answers.add([&] { return reader.next(); })) {
    }
    return;
  }
  RecordReader lines(path, RecordReader::Blank::keep);
  for (Record record; lines.next(record);)
    answers.add_line(record.text, fmt::format("{}:{}", path, record.line));
}

void read_input_lines(Answers& answers) {
  for_each_input_lines([&](std::string_view text, int64_t line) {
    for (const std::string_view one : lines_of(text))
      answers.add_line(one, fmt::format("standard input:{}", line++));
    answers.flush();
    return true;
  });
}

int run(const ClassifyArguments& a) {
  require_argument(a.model, "MODEL", "classify");
  if (!a.data.empty() && !a.texts.empty()) fail_usage("--text and --data: expected one of them");
  const DType dtype = parse_dtype("--dtype", a.dtype);
  Machine machine(a.machine);
  const LoadedModel loaded(a.model, std::nullopt, MatrixOrder::as_stored);
  const TaskHead head = read_head(loaded);
  const auto tokenizer = chosen_tokenizer(loaded, a.tokenizer);
  if (tokenizer == nullptr)
    fail("{} has no tokenizer.json; name one with --tokenizer (byte, or a file)", a.model);
  Classifier classifier(loaded.model(), machine.backend, head.facts, head.view(), dtype);
  Answers answers(a, classifier, *tokenizer);
  for (size_t i = 0; i < a.texts.size(); ++i) {
    write_note(note_of_file(a.texts[i], "--data"));
    answers.add_line(a.texts[i], fmt::format("--text {}", i + 1));
  }
  if (!a.data.empty()) {
    read_data_file(a.data, head.facts.kind, answers);
  } else if (a.texts.empty()) {
    read_input_lines(answers);
  }
  answers.finish();
  return 0;
}

}  // namespace

Command add_classify_command(CLI::App& root) {
  auto a = std::make_shared<ClassifyArguments>();
  CLI::App* app = add_command(root, "classify", "label texts with a fine-tuned head", kClassifyFooter);
  add_model_option(*app, a->model, "Folder of a fine-tuned model, or of its run");
  add(*app,
      {.flags = "--text,TEXT",
       .value = "TEXT",
       .help = "Input text, instead of standard input; can be repeated",
       .is_repeated = true,
       .aliases = "-p|--prompt"},
      a->texts);
  add(*app,
      {.flags = "--data",
       .value = "FILE",
       .help = "File with inputs, instead of standard input: .jsonl, .csv, .tsv or lines of text",
       .kind = ValueKind::path},
      a->data);
  add(*app, {.flags = "--plain", .help = "Read every line as text, also lines that start with {"}, a->plain);
  add(*app,
      {.flags = "--skip-bad", .help = "Write {\"error\": ...} for inputs that cannot be read, and continue"},
      a->skip_bad);
  add(*app,
      {.flags = "--show-ids", .help = "Also write the token ids of the input and the outputs of the head"},
      a->show_ids);
  add(*app, dtype_option(), a->dtype);
  add_tokenizer_option(*app, a->tokenizer);
  add_machine_options(*app, a->machine);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt

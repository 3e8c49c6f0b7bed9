#include "finetune/examples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "finetune/json_lines.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxChoices = 256;

// Returns the names of the text fields of a task. For `choose`, the last field is a list.
std::vector<std::string> fields_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::classify:
      return {"text"};
    case TaskKind::entail:
      return {"premise", "hypothesis"};
    case TaskKind::similar:
      return {"text1", "text2"};
    case TaskKind::choose:
      return {"context", "choices"};
  }
  return {};
}

ordered_json parsed(std::string_view text, const std::string& place) {
  try {
    return parse_json_document(text, place);
  } catch (const Error& error) {
    throw RecordError(error.what());
  }
}

void add_choices(const ordered_json& list, const std::string& place, Example& example) {
  const bool strings =
      list.is_array() && std::ranges::all_of(list, [](const ordered_json& x) { return x.is_string(); });
  if (!strings || list.size() < 2 || list.size() > kMaxChoices) {
    fail_record("{}: expected \"choices\" to be a list of 2 to {} strings, found {}", place, kMaxChoices,
                strings ? fmt::format("{} of them", list.size()) : std::string(json_kind(list)));
  }
  for (const ordered_json& choice : list)
    example.texts.push_back(choice);
}

// Returns a canonical text for a number, so that 1.0 and 1 are the same label.
std::string label_number(const ordered_json& number) {
  constexpr double kExact = 0x1p53;
  const double value = number.get<double>();
  const bool whole = number.is_number_float() && std::abs(value) < kExact && value == std::trunc(value);
  return whole ? std::to_string(static_cast<int64_t>(value)) : number.dump();
}

std::optional<std::string> label_of(const ordered_json& value, const std::string& place) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (is_big_integer(value) || value.is_boolean()) return json_text(value);
  if (value.is_number()) return label_number(value);
  fail_record("{}: expected \"label\" to be a string or a number, found {}", place, json_kind(value));
}

void check(const Example& example, TaskKind kind, bool labelled) {
  if (labelled && !example.label)
    fail_record("{}: the example has no \"label\"; training and evaluation need one", example.place);
  if (!example.label || kind != TaskKind::choose) return;
  const std::string& label = *example.label;
  const size_t choices = example.texts.size() - 1;
  for (size_t i = 0; i < choices; ++i) {
    if (label == std::to_string(i)) return;
  }
  fail_record("{}: expected \"label\" to be the index of a choice, 0 to {}, found {}", example.place,
              choices - 1, printable(label));
}

[[noreturn]] void fail_column(const std::string& path, const std::string& name,
                              const std::vector<std::string>& columns) {
  constexpr size_t kShown = 10;
  const bool semicolons = columns.size() == 1 && columns[0].find(';') != std::string::npos;
  fail("{}:1: there is no column \"{}\"{}; the first row must name the columns, found {}{}", path, name,
       did_you_mean(name, columns), format_list(transformed(columns, printable), kShown),
       semicolons ? "; the columns seem to be separated by semicolons, but .csv files use commas and .tsv "
                    "files use tabs"
                  : "");
}

}  // namespace

std::optional<TaskKind> find_task(std::string_view name) {
  const auto found = std::ranges::find(kTaskNames, name);
  if (found == std::end(kTaskNames)) return {};
  return static_cast<TaskKind>(found - kTaskNames);
}

Example example_of_json(std::string_view line, TaskKind kind, bool labelled, const std::string& place) {
  const ordered_json object = parsed(line, place);
  if (!object.is_object()) fail_record("{}: expected a JSON object, found {}", place, json_kind(object));
  Example example{
      .texts = {}, .label = label_of(object.value("label", ordered_json()), place), .place = place};
  for (const std::string& field : fields_of(kind)) {
    if (!object.contains(field)) {
      std::vector<std::string> names;
      for (const auto& [name, value] : object.items())
        names.push_back(name);
      fail_record("{}: the object has no \"{}\"{}; an example of task {} has {}", place, field,
                  did_you_mean(field, names), task_name(kind), fmt::join(fields_of(kind), " and "));
    }
    const ordered_json& value = object[field];
    if (field == "choices") {
      add_choices(value, place, example);
    } else if (value.is_string()) {
      example.texts.push_back(value);
    } else {
      fail_record("{}: expected \"{}\" to be a string, found {}", place, field, json_kind(value));
    }
  }
  check(example, kind, labelled);
  return example;
}

ExampleReader::ExampleReader(const std::string& path, TaskKind kind, bool labelled)
    : path_(path),
      kind_(kind),
      labelled_(labelled),
      records_(path, labelled ? RecordReader::Blank::skip : RecordReader::Blank::keep) {
  if (!records_.is_table()) return;
  std::vector<std::string> wanted = fields_of(kind);
  if (labelled) wanted.emplace_back("label");
  for (const std::string& name : wanted) {
    if (std::ranges::find(records_.columns(), name) != records_.columns().end()) continue;
    fail_column(path, name, records_.columns());
  }
}

Example ExampleReader::of_cells() const {
  const auto cell = [&](const std::string& name) -> const std::string* {
    const auto& columns = records_.columns();
    const auto at = std::ranges::find(columns, name);
    return at == columns.end() ? nullptr : &record_.cells[static_cast<size_t>(at - columns.begin())];
  };
  Example example{.texts = {}, .label = {}, .place = fmt::format("{}:{}", path_, record_.line)};
  if (const std::string* label = cell("label"); label != nullptr && !label->empty()) example.label = *label;
  for (const std::string& field : fields_of(kind_)) {
    if (field == "choices") {
      add_choices(parsed(*cell(field), example.place), example.place, example);
    } else {
      example.texts.push_back(*cell(field));
    }
  }
  check(example, kind_, labelled_);
  return example;
}

std::optional<Example> ExampleReader::next() {
  if (!records_.next(record_)) return {};
  if (records_.is_table()) return of_cells();
  return example_of_json(record_.text, kind_, labelled_, fmt::format("{}:{}", path_, record_.line));
}

ExampleSet read_examples(const std::vector<std::string>& files, TaskKind kind, bool skip_bad) {
  ExampleSet set;
  for (const std::string& path : files) {
    ExampleReader reader(path, kind, true);
    for (bool more = true; more;) {
      try {
        std::optional<Example> example = reader.next();
        more = example.has_value();
        if (!more) continue;
        const size_t choices = set.examples.empty() ? example->texts.size() : set.examples[0].texts.size();
        if (example->texts.size() != choices) {
          fail_record("{}: expected {} choices, the same number as {}, found {}", example->place, choices - 1,
                      set.examples[0].place, example->texts.size() - 1);
        }
        set.examples.push_back(std::move(*example));
      } catch (const RecordError& error) {
        if (!skip_bad) throw;
        if (set.skipped++ == 0) set.first_problem = error.what();
      }
    }
  }
  if (set.examples.empty()) fail_without_examples(files, {set.skipped, set.first_problem});
  return set;
}

}  // namespace gpt

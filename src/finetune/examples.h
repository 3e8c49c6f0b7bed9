#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/records.h"

namespace gpt {

// GPT-1's tasks (Radford et al. 2018, 3.3).
enum class TaskKind : uint8_t { classify, entail, similar, choose };
inline constexpr const char* kTaskNames[] = {"classify", "entail", "similar", "choose"};
inline const char* task_name(TaskKind kind) {
  return kTaskNames[static_cast<size_t>(kind)];
}
std::optional<TaskKind> find_task(std::string_view name);

// One labelled text, or what belongs together: classify has a text, entail premise and hypothesis, similar
// two texts, choose a context and then its choices.
struct Example {
  std::vector<std::string> texts;
  std::optional<std::string> label;  // as the file has it; of choose the number of a choice, from 0
  std::string place;                 // FILE:LINE
};

// The example of a JSON object with the keys of the task: text; premise, hypothesis; text1, text2; context,
// choices (a list). Labels are strings, numbers or booleans. Throws RecordError naming the place, also where
// it is labelled and there is no label.
Example example_of_json(std::string_view line, TaskKind kind, bool labelled, const std::string& place);

// The examples of a file one after the other: JSON lines, or .csv and .tsv with these names as columns, in
// which choices are a JSON list; perhaps compressed.
class ExampleReader {
 public:
  // Not labelled: a label may be missing, and a blank row of a table with one column is an empty text.
  ExampleReader(const std::string& path, TaskKind kind, bool labelled);
  // Nothing at the end. Throws RecordError naming file and line; the next call goes on behind what was wrong.
  std::optional<Example> next();

 private:
  Example of_cells() const;

  std::string path_;
  TaskKind kind_;
  bool labelled_;
  RecordReader records_;
  Record record_;
};

struct ExampleSet {
  std::vector<Example> examples;
  int64_t skipped = 0;
  std::string first_problem;  // of what was skipped
};
// All examples of some files, in memory. skip_bad: what is wrong is passed over and counted, where it would
// else be an Error. Throws Error too where there is no example, or examples of choose have not all as many
// choices.
ExampleSet read_examples(const std::vector<std::string>& files, TaskKind kind, bool skip_bad);

}  // namespace gpt

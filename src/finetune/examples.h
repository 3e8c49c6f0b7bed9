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

// The tasks of the GPT-1 paper (Radford et al. 2018, section 3.3).
enum class TaskKind : uint8_t { classify, entail, similar, choose };
inline constexpr const char* kTaskNames[] = {"classify", "entail", "similar", "choose"};
inline const char* task_name(TaskKind kind) {
  return kTaskNames[static_cast<size_t>(kind)];
}
std::optional<TaskKind> find_task(std::string_view name);

// Stores the texts of an example and its label. `classify` has one text, `entail` a premise and a hypothesis,
// `similar` two texts, and `choose` a context followed by the choices.
struct Example {
  std::vector<std::string> texts;
  // The label as written in the file. For `choose`, the label is the index of the correct choice, counted
  // from 0.
  std::optional<std::string> label;
  std::string place;  // FILE:LINE
};

// Parses an example from a JSON object. The keys depend on the task: "text"; "premise" and "hypothesis";
// "text1" and "text2"; "context" and "choices" (a list). Labels are strings, numbers or booleans. Throws
// RecordError naming the place if the object is invalid, or if `labelled` is true and the label is missing.
Example example_of_json(std::string_view line, TaskKind kind, bool labelled, const std::string& place);

// Reads the examples of a file one by one. The file contains JSON lines, or it is a .csv or .tsv table whose
// columns have the same names as the JSON keys; choices are then a JSON list. The file may be compressed.
class ExampleReader {
 public:
  // If `labelled` is false, the label may be missing, and a blank row in a table with one column is an empty
  // text.
  ExampleReader(const std::string& path, TaskKind kind, bool labelled);
  // Returns the next example, or nothing at the end of the file. Throws RecordError naming file and line if
  // an example is invalid; the next call then continues after the invalid example.
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
  std::string first_problem;  // error of the first skipped example
};
// Reads all examples of several files into memory. If `skip_bad` is true, invalid examples are skipped and
// counted; otherwise they throw Error. Throws Error if there is no valid example, or if examples of `choose`
// have different numbers of choices.
ExampleSet read_examples(const std::vector<std::string>& files, TaskKind kind, bool skip_bad);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tasks/document_types.h"
#include "tasks/task_config.h"

namespace gpt {

// The examples of a split, and where each stands.
struct Documents {
  std::shared_ptr<const std::vector<nlohmann::ordered_json>> docs;
  std::vector<std::string> places;  // "FILE, line N"

  size_t size() const { return places.size(); }
};

// Reads JSONL files, one object a line, one after the other, and types their columns unless `texts` is empty.
// Throws Error naming file and line.
Documents read_documents(const std::vector<std::string>& paths, std::optional<TextTypes> texts);

// Returns a document with JSON types only: datetimes become strings.
nlohmann::ordered_json plain_document(const nlohmann::ordered_json& value);

// Finds and reads the splits of a task, each once. Nothing is fetched: dataset_path json names its files in
// dataset_kwargs.data_files, looked for in the data folder, where gpt runs and beside the YAML; of other
// data sets the files are DIR/NAME/SPLIT.jsonl with the task's or the data set's name, or DIR/SPLIT.jsonl.
class TaskData {
 public:
  // data_dir may be "".
  TaskData(const TaskConfig& config, std::string data_dir)
      : config_(config), data_dir_(std::move(data_dir)) {}

  // After the task's process_docs. Throws Error naming the task and what was looked for.
  const Documents& split(const std::string& name);

 private:
  std::vector<std::string> files_of(const std::string& split) const;

  const TaskConfig& config_;
  std::string data_dir_;
  std::map<std::string, Documents> splits_;
};

}  // namespace gpt

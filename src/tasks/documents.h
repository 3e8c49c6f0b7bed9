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

// The examples of a split, with the file and line of each example.
struct Documents {
  std::shared_ptr<const std::vector<nlohmann::ordered_json>> docs;
  std::vector<std::string> places;  // "FILE, line N" for each example

  size_t size() const { return places.size(); }
};

// Reads JSONL files one after the other, with one object per line. Assigns types to the columns unless
// `texts` is empty. Throws Error naming file and line.
Documents read_documents(const std::vector<std::string>& paths, std::optional<TextTypes> texts);

// Returns a document with JSON types only: datetimes become strings.
nlohmann::ordered_json plain_document(const nlohmann::ordered_json& value);

// Finds the splits of a task and reads each split once. Never downloads data. If the dataset_path of a task
// is "json", dataset_kwargs.data_files lists its files. These files are searched in the data folder, in the
// working directory and next to the YAML file. For other data sets, the files are DIR/NAME/SPLIT.jsonl or
// DIR/SPLIT.jsonl, where NAME is the name of the task or of the data set.
class TaskData {
 public:
  // `data_dir` is the data folder, or "" if there is none.
  TaskData(const TaskConfig& config, std::string data_dir)
      : config_(config), data_dir_(std::move(data_dir)) {}

  // Returns a split, processed by the task's process_docs. Throws Error naming the task and the searched
  // paths.
  const Documents& split(const std::string& name);

 private:
  std::vector<std::string> files_of(const std::string& split) const;

  const TaskConfig& config_;
  std::string data_dir_;
  std::map<std::string, Documents> splits_;
};

}  // namespace gpt

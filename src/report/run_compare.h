#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/metrics.h"
#include "report/report_html.h"

namespace gpt {

// A training run as its folder tells of it.
struct FinishedRun {
  std::string path, name;  // the name is the last part of the path that differs from the other runs'
  std::vector<MetricRecord> records;
  std::map<std::string, std::string> config;  // every key with its value as text; empty without config.json
};

// Reads metrics.jsonl and config.json of each folder. Throws Error naming the path when a folder has no
// metrics.jsonl, or when a file is damaged. Two runs of one name are told apart by their whole paths.
std::vector<FinishedRun> read_runs(const std::vector<std::string>& paths);

// The figures of a run; what it did not measure is empty.
struct RunSummary {
  double steps = 0, tokens = 0, seconds = 0;
  std::optional<double> loss;  // the last one, and of validation the last and the best with its step
  std::optional<double> val_loss, best_val_loss, best_step;
  std::optional<double> tokens_per_s;  // the median
};
RunSummary summarize(const FinishedRun& run);

// One row for each run, one column for each figure.
TextTable summary_table(const std::vector<FinishedRun>& runs);
// One row for each config key whose value is not the same in all runs, one column for each run.
TextTable difference_table(const std::vector<FinishedRun>& runs);
// Both as JSON: {"runs":[{"name","path","steps",...}],"differences":{KEY:[VALUE of each run]}}.
std::string compare_json(const std::vector<FinishedRun>& runs);
// The page: curves of all runs over one another, and both tables.
RunReport compare_report(const std::vector<FinishedRun>& runs);

}  // namespace gpt

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/metrics.h"
#include "report/report_html.h"

namespace gpt {

// A training run that was read from its folder.
struct FinishedRun {
  // The name is the last part of the path, or the whole path if other runs have the same last part.
  std::string path, name;
  std::vector<MetricRecord> records;
  std::map<std::string, std::string> config;  // all keys with their values as text; empty without config.json
};

// Reads metrics.jsonl and config.json of each folder. Throws Error naming the path when a folder has no
// metrics.jsonl, or when a file is damaged. Runs with the same name are named by their whole paths.
std::vector<FinishedRun> read_runs(const std::vector<std::string>& paths);

// The results of a run. A value is empty if the run did not measure it.
struct RunSummary {
  double steps = 0, tokens = 0, seconds = 0;
  std::optional<double> loss;  // last training loss
  // Last validation loss, best validation loss, and the step with the best validation loss.
  std::optional<double> val_loss, best_val_loss, best_step;
  std::optional<double> tokens_per_s;  // median of all records
};
RunSummary summarize(const FinishedRun& run);

// Returns a table with one row per run and one column per result.
TextTable summary_table(const std::vector<FinishedRun>& runs);
// Returns a table of the config keys whose values differ between the runs, with one row per key and one
// column per run.
TextTable difference_table(const std::vector<FinishedRun>& runs);
// Returns the summary and the differences as JSON:
// {"runs":[{"name","path","steps",...}],"differences":{KEY:[VALUE of each run]}}.
std::string compare_json(const std::vector<FinishedRun>& runs);
// Returns a page with charts, the summary table and the difference table. Each chart shows the curves of all
// runs.
RunReport compare_report(const std::vector<FinishedRun>& runs);

}  // namespace gpt

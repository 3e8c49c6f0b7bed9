#pragma once

#include <list>
#include <string>
#include <vector>

#include "base/clock.h"
#include "report/metrics.h"
#include "serve/models/model_set.h"
#include "serve/openai/responses.h"

namespace gpt::serve {

// A training run that can be watched: a folder with metrics.jsonl, which may still be written.
struct WatchedRun {
  std::string name, folder;
  bool operator==(const WatchedRun&) const = default;
};
// Returns true if a path is the folder of a run.
bool is_run(const std::string& path);
// Returns a text that changes whenever the file is written, or "" if it does not exist.
std::string file_version(const std::string& path);

// Reads the state of a run from its folder. The files are read again if they have changed. Not thread-safe.
class RunWatch {
 public:
  explicit RunWatch(WatchedRun run) : run_(std::move(run)) {}
  const WatchedRun& run() const { return run_; }
  const std::string& name() const { return run_.name; }

  // Returns the state of the run. Throws Error for a damaged file.
  RunResponse summary();
  // Returns the state with the curves and the newest samples.
  RunResponse details();
  // Returns the report page that the run writes from time to time. Throws Error if there is none yet.
  std::string report() const;

 private:
  void refresh();
  RunResponse facts() const;

  WatchedRun run_;
  std::string version_;  // version of the file that was last read
  std::vector<MetricRecord> records_;
  int64_t steps_ = 0;  // total steps of the run; 0: unknown
  Clock::time_point read_at_ = {};
  double read_took_ = 0;  // duration of the last read in seconds
};

// The runs that can be watched: those passed to the constructor, and the models that are run folders as they
// are loaded and unloaded. Not thread-safe. Keeps a reference to the models.
class RunList {
 public:
  RunList(const ModelSet& models, std::vector<WatchedRun> always)
      : models_(models), always_(std::move(always)) {}

  // Returns the current runs. A run keeps the data that it has read as long as it is in the list.
  std::list<RunWatch>& now();
  // Returns the run of this name, or null if there is none.
  RunWatch* find(std::string_view name);

 private:
  const ModelSet& models_;
  const std::vector<WatchedRun> always_;
  std::list<RunWatch> runs_;
};

}  // namespace gpt::serve

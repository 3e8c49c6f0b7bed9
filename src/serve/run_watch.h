#pragma once

#include <list>
#include <string>
#include <vector>

#include "base/clock.h"
#include "report/metrics.h"
#include "serve/model_set.h"

namespace gpt::serve {

// A run whose training can be watched: a folder with metrics.jsonl, which may still be written.
struct WatchedRun {
  std::string name, folder;
  bool operator==(const WatchedRun&) const = default;
};
// Whether a path is the folder of a run.
bool is_run(const std::string& path);
// Another text whenever a file has been written; "" where there is none.
std::string file_version(const std::string& path);

// What the folder of a run says of it, read again when its files have changed. One thread.
class RunWatch {
 public:
  explicit RunWatch(WatchedRun run) : run_(std::move(run)) {}
  const WatchedRun& run() const { return run_; }
  const std::string& name() const { return run_.name; }

  // {"name","version","report_version","step","steps","loss","val_loss","tok_per_s","seconds","eta_seconds","state"},
  // state "running", "finished" or "silent"; what is not known is null. Throws Error for a damaged file.
  std::string summary();
  // The same with "curves", as curves_json, and "samples", the newest texts as {"step","text"}.
  std::string details();
  // The page that the run writes now and then; throws Error where it has none yet.
  std::string report() const;

 private:
  void refresh();
  std::string facts() const;

  WatchedRun run_;
  std::string version_;  // of the file that was read
  std::vector<MetricRecord> records_;
  int64_t steps_ = 0;  // of the whole run; 0: not known
  Clock::time_point read_at_ = {};
  double read_took_ = 0;  // seconds
};

// The runs that can be watched: those it is made with, and the models that are folders of runs, as they come
// and go. One thread; refers to the models.
class RunList {
 public:
  RunList(const ModelSet& models, std::vector<WatchedRun> always)
      : models_(models), always_(std::move(always)) {}

  // Those there are now, which keep what they have read as long as they are there.
  std::list<RunWatch>& now();
  // One of them; null where there is none of this name.
  RunWatch* find(std::string_view name);

 private:
  const ModelSet& models_;
  const std::vector<WatchedRun> always_;
  std::list<RunWatch> runs_;
};

}  // namespace gpt::serve

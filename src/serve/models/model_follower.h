#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "serve/models/model_set.h"

namespace gpt::serve {

// Watches the models that are run folders. When a run writes a new checkpoint, a separate thread loads it and
// replaces the served model. Other models are not changed.
class ModelFollower {
 public:
  struct Options {
    double pause = 2;  // seconds between two checks
    // Receives messages about loaded checkpoints and failed loads.
    std::function<void(const std::string& line)> note = {};
  };
  // Keeps a reference to the models, which must outlive the object. Assumes that their current checkpoints
  // are the newest.
  ModelFollower(ModelSet& models, Options options);
  ~ModelFollower();
  ModelFollower(const ModelFollower&) = delete;
  ModelFollower& operator=(const ModelFollower&) = delete;

 private:
  void loop();
  void look();
  void load(const ServedModel& model);

  ModelSet& models_;
  const Options options_;
  std::map<std::string, std::string>
      versions_;  // by model: version of the checkpoint that was last loaded or tried
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace gpt::serve

#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "serve/model_set.h"

namespace gpt::serve {

// Loads the newest checkpoint of models that are the folders of runs, in a thread of its own, and puts it in
// the place of the one before. Models that come from elsewhere stay what they are.
class ModelFollower {
 public:
  struct Options {
    double pause = 2;                                        // seconds between two looks
    std::function<void(const std::string& line)> note = {};  // what was loaded, and what could not be
  };
  // Refers to the models, which outlive it. What they have now is the newest.
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
  std::map<std::string, std::string> versions_;  // of the checkpoint that was loaded, or tried, by model
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace gpt::serve

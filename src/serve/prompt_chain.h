#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "serve/call.h"
#include "serve/prompt_task.h"
#include "serve/served_model.h"

namespace gpt::serve {

// Processes several prompts of a call one after another, in side tasks of the engine. The chain ends if the
// client disconnects. Errors are sent to the client.
class PromptChain : public std::enable_shared_from_this<PromptChain> {
 public:
  using OnFail = PromptTask::OnFail;
  // Creates the task for prompt i. The task must call `next` when it is done.
  using Make =
      std::function<std::shared_ptr<PromptTask>(size_t i, std::function<void()> next, OnFail on_fail)>;
  // `finish` is called on the worker thread after the last prompt. An exception from it is sent as the
  // response.
  PromptChain(EngineWorker& worker, std::shared_ptr<Call> call, size_t count, Make make,
              std::function<void()> finish);
  void start();  // throws like EngineWorker::submit_side

 private:
  void next();
  void cancel();
  std::shared_ptr<PromptTask> release();

  EngineWorker& worker_;
  std::shared_ptr<Call> call_;
  size_t count_, at_ = 0;
  Make make_;
  std::function<void()> finish_;
  std::mutex mutex_;
  std::shared_ptr<PromptTask> task_;
  bool cancelled_ = false;
};

}  // namespace gpt::serve

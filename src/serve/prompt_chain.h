#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "serve/call.h"
#include "serve/prompt_task.h"
#include "serve/served_model.h"

namespace gpt::serve {

// Reads several prompts of a call, one after another, beside the engine's work. A client that goes away ends
// it; what goes wrong is what the client is told.
class PromptChain : public std::enable_shared_from_this<PromptChain> {
 public:
  using OnFail = PromptTask::OnFail;
  // The task for prompt i, which calls `next` when it is done.
  using Make =
      std::function<std::shared_ptr<PromptTask>(size_t i, std::function<void()> next, OnFail on_fail)>;
  // finish: after the last prompt, on the worker's thread; what it throws is the call's answer.
  PromptChain(EngineWorker& worker, std::shared_ptr<Call> call, size_t count, Make make,
              std::function<void()> finish);
  void start();  // throws as EngineWorker::submit_side

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

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "infer/logprobs.h"
#include "infer/selector.h"
#include "serve/call.h"
#include "serve/models/engine_worker.h"
#include "serve/models/served_model.h"
#include "tensor/buffer.h"

namespace gpt::serve {

// Processes a prompt in parts, in a slot that the engine does not use.
class PromptTask : public SideTask {
 public:
  using OnFail = std::function<void(const std::exception& error)>;
  struct Prompt {
    std::vector<int32_t> ids;
    int adapter = -1;
    uint64_t salt = 0;
  };
  // The slot must be empty between tasks. The prompt must fit into the context. Keeps a reference to
  // `inference`.
  PromptTask(Inference& inference, int slot, Prompt prompt, OnFail on_fail)
      : inference_(inference),
        slot_(slot),
        adapter_(prompt.adapter),
        salt_(prompt.salt),
        ids_(std::move(prompt.ids)),
        on_fail_(std::move(on_fail)) {}
  bool run(int64_t rows) override;
  void fail(const std::exception& error) override;
  void cancel() { cancelled_ = true; }  // thread-safe; the task ends with its next part

 protected:
  virtual int64_t most_rows() const { return INT64_MAX; }  // maximum rows of a part
  // Appends ids [first, first + n) to the slot and stores the required results.
  virtual void read(const SequenceModel::Append& part, int64_t first) = 0;
  virtual void done() = 0;

  Inference& inference_;
  const int slot_, adapter_;
  const uint64_t salt_;
  const std::vector<int32_t> ids_;

 private:
  OnFail on_fail_;
  int64_t read_ = 0;
  bool begun_ = false;
  std::atomic<bool> cancelled_ = false;
};

// Computes the log-probability of each prompt id given the ids before it, starting with the second id. Also
// returns the k most likely ids at each position.
class ScoreTask : public PromptTask {
 public:
  using OnDone = std::function<void(std::vector<Logprobs> scores)>;  // [ids - 1]
  ScoreTask(Inference& inference, int slot, Prompt prompt, int64_t k, OnDone on_done, OnFail on_fail);

 protected:
  int64_t most_rows() const override;
  void read(const SequenceModel::Append& part, int64_t first) override;
  void done() override { on_done_(std::move(scores_)); }

 private:
  int64_t k_;
  OnDone on_done_;
  Selector selector_;
  Buffer logits_;
  std::vector<Logprobs> scores_;
};

// Computes the mean of the final hidden states (the input of the output head) over all ids, scaled to length
// 1.
class EmbedTask : public PromptTask {
 public:
  using OnDone = std::function<void(std::vector<float> embedding)>;  // [C]
  EmbedTask(Inference& inference, int slot, Prompt prompt, OnDone on_done, OnFail on_fail)
      : PromptTask(inference, slot, std::move(prompt), std::move(on_fail)),
        on_done_(std::move(on_done)),
        sums_(static_cast<size_t>(inference.config().n_embd)) {}

 protected:
  void read(const SequenceModel::Append& part, int64_t first) override;
  void done() override;

 private:
  OnDone on_done_;
  std::vector<double> sums_;
  Buffer hidden_, numbers_;
};

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

#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "infer/logprobs.h"
#include "infer/selector.h"
#include "serve/engine_worker.h"
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

}  // namespace gpt::serve

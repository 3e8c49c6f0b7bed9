#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/selector.h"
#include "infer/sequence_model.h"
#include "tasks/prefix_tree.h"

namespace gpt {

// A sequence of ids whose last `scored` ids are predicted. Requires 1 <= scored < ids.size() <= n_ctx + 1.
struct ScoreRequest {
  std::vector<int32_t> ids;
  int64_t scored = 0;
};

struct Score {
  double logprob = 0;  // natural logarithm, summed over the scored ids
  bool greedy = true;  // true if every scored id is the most likely one (ties: lowest id)
};

// Computes the log-probabilities of the last ids of sequences. A prefix that several sequences share is
// computed only once. Examples are a question with several answers, or the description before all questions.
// A score depends only on the model and its own request.
class Scorer {
 public:
  struct Counts {
    int64_t computed = 0;  // ids that the model computed
    int64_t asked = 0;     // ids that the model would compute without shared prefixes
  };

  // The model must outlive the scorer. The scorer uses all slots of the model. step_rows is the maximum
  // number of ids in a forward call, at least 1.
  Scorer(SequenceModel& model, int64_t step_rows);

  // Returns the scores in the order of the requests. Calls `progress` with the number of completed requests
  // and the number of all requests. Throws Error for ids outside the vocabulary and for non-finite logits.
  std::vector<Score> score(std::span<const ScoreRequest> requests,
                           const std::function<void(int64_t, int64_t)>& progress = {});

  const Counts& counts() const { return counts_; }

 private:
  // A node of the prefix tree that is being computed.
  struct Job {
    size_t node;
    std::span<const int32_t> ids;
    int64_t scored;  // maximum over the requests of the node; 0 if no id is scored
    int slot = -1;
    int64_t done = 0;       // ids already in the slot
    int64_t appended = 0;   // ids appended in this step
    int64_t wanted = 0;     // rows of logits in this step
    int64_t first_row = 0;  // first of these rows in the buffer
  };
  void open(const PrefixTree& tree, size_t node, int64_t known);
  bool start(Job& job);
  void admit(const PrefixTree& tree);
  void step(const PrefixTree& tree);
  template <class F>
  void for_scored(const PrefixTree& tree, F&& fn) const;
  void read(const PrefixTree& tree);

  SequenceModel& model_;
  int64_t step_rows_, logit_rows_;
  Buffer logits_;  // [logit_rows, V]
  Selector selector_;
  std::vector<Selector::Token> scored_tokens_;  // ids scored in the current step
  Counts counts_;
  // State of the current call to score().
  std::span<const ScoreRequest> requests_;
  std::vector<Score> scores_;
  std::vector<size_t> ready_;  // nodes whose parent is computed; the last one is next
  std::vector<Job> jobs_;
  std::vector<int> free_slots_;
  int64_t finished_ = 0;
};

}  // namespace gpt

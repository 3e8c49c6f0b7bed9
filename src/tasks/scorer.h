#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/selector.h"
#include "infer/sequence_model.h"
#include "tasks/prefix_tree.h"

namespace gpt {

// Ids of which the last `scored` ones are to be predicted: 1 <= scored < ids.size() <= n_ctx + 1.
struct ScoreRequest {
  std::vector<int32_t> ids;
  int64_t scored = 0;
};

struct Score {
  double logprob = 0;  // natural, summed over the scored ids
  bool greedy = true;  // whether each is the likeliest one, ties to the lowest id
};

// Log-probabilities of the ends of sequences. Beginnings that several have in common are computed once: a
// question for all its answers, a description for all questions. A score depends on the model and its own
// request alone.
class Scorer {
 public:
  struct Counts {
    int64_t computed = 0;  // ids that went through the model
    int64_t asked = 0;     // ids that would have without common beginnings
  };

  // Refers to the model, which outlives it; uses all its slots. step_rows: most ids in one forward call,
  // >= 1.
  Scorer(SequenceModel& model, int64_t step_rows);

  // The scores in the order of the requests. progress: requests done and in all. Throws Error for ids outside
  // the vocabulary and logits that are not finite.
  std::vector<Score> score(std::span<const ScoreRequest> requests,
                           const std::function<void(int64_t, int64_t)>& progress = {});

  const Counts& counts() const { return counts_; }

 private:
  // A node of the tree on its way through the model.
  struct Job {
    size_t node;
    std::span<const int32_t> ids;
    int64_t scored;  // the most of any request; 0: nothing is
    int slot = -1;
    int64_t done = 0;       // ids in the slot
    int64_t appended = 0;   // in this step
    int64_t wanted = 0;     // rows of logits in this step
    int64_t first_row = 0;  // of these
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
  std::vector<Selector::Token> scored_tokens_;  // of a step
  Counts counts_;
  // Of the run.
  std::span<const ScoreRequest> requests_;
  std::vector<Score> scores_;
  std::vector<size_t> ready_;  // nodes whose beginning is computed, the next one last
  std::vector<Job> jobs_;
  std::vector<int> free_slots_;
  int64_t finished_ = 0;
};

}  // namespace gpt

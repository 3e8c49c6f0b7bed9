#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "infer/sequence_model.h"
#include "model/config.h"
#include "tasks/prompts.h"
#include "tasks/scorer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace gpt {

using TaskProgress = std::function<void(int64_t done, int64_t total)>;

// Combines a model with its tokenizer. Computes log-probabilities of texts and generates texts. Texts are
// encoded in the same way as by the `hf` model of lm-evaluation-harness 0.4.13. The names of special tokens
// are encoded as these tokens. If the tokenizer has the setting add_bos, BOS is inserted before each text
// that does not begin with BOS. A text that does not fit into the context is truncated on the left.
class TaskModel {
 public:
  // All arguments must outlive this object. step_rows is the maximum number of ids in a forward call. If
  // `chat` is not null, each context becomes a user message in this template, and the model generates the
  // reply. If `chat` is null, the model continues the context. `processes` are the ranks that share the work.
  // Every rank must make the same requests and receives all results, which are identical to the results of a
  // single process.
  TaskModel(SequenceModel& model, const Tokenizer& tokenizer, const ModelConfig& config, int64_t step_rows,
            const ChatTemplate* chat = nullptr, Communicator& processes = single_process());

  // Scores continuations that follow their contexts. A context and its continuation are encoded together, and
  // white space at the end of the context counts as part of the continuation. An empty context is replaced by
  // BOS, or by EOS if there is no BOS. Throws Error if a continuation adds no ids or is longer than the
  // model's context.
  std::vector<Score> scores(std::span<const TaskPrompt::Pair> pairs, const TaskProgress& progress = {});
  // Returns the log-probabilities of whole texts. The first window of a text begins with BOS (or EOS). Later
  // windows begin with ids that precede the scored ids.
  std::vector<double> rolling(std::span<const std::string> texts, const TaskProgress& progress = {});
  // Generates `repeats` continuations of each context. A continuation ends before the first stop sequence of
  // rule.until and has no special tokens. Throws Error if rule.max_tokens leaves no room for a context.
  std::vector<std::vector<std::string>> generate(std::span<const std::string> contexts,
                                                 const GenerationRule& rule, int64_t repeats, uint64_t seed,
                                                 const TaskProgress& progress = {});

  // Returns the text that generate() sends to the model: the context, formatted by the chat template if there
  // is one.
  std::string question_text(const std::string& context) const;

  std::vector<Score> score_ids(std::span<const ScoreRequest> requests, const TaskProgress& progress = {});
  const Tokenizer& tokenizer() const { return tokenizer_; }
  bool chats() const { return chat_ != nullptr; }
  int64_t n_ctx() const { return model_.n_ctx(); }
  // Returns BOS, or EOS if there is no BOS, or -1 if there is neither.
  int32_t prefix_id() const { return prefix_; }
  // Returns the sum of the counts of all ranks.
  Scorer::Counts counts() const;

 private:
  std::vector<int32_t> encode(const std::string& text) const;
  std::vector<int32_t> encode_question(const std::string& context) const;
  ScoreRequest encode_pair(const TaskPrompt::Pair& pair) const;
  int32_t required_prefix() const;
  void add_windows(const std::vector<int32_t>& ids, std::vector<ScoreRequest>& windows) const;
  std::string text_of(std::span<const int32_t> ids) const;
  template <class Of>
  auto shared(int64_t count, const TaskProgress& progress, Of of);
  void require_same_questions(const std::vector<std::vector<int32_t>>& questions) const;
  std::vector<std::vector<int32_t>> encode_questions(std::span<const std::string> contexts,
                                                     int64_t room) const;
  // Generates `repeats` texts for each question, one after the other. `first` is the number of the first
  // question.
  std::vector<std::string> write_answers(std::span<const std::vector<int32_t>> questions, int64_t first,
                                         const GenerationRule& rule, int64_t repeats, uint64_t seed,
                                         const TaskProgress& progress);

  SequenceModel& model_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  Communicator& processes_;
  Scorer scorer_;
  int64_t step_rows_;
  std::vector<int32_t> eos_, special_;
  int32_t prefix_ = -1, before_texts_ = -1;
  std::string prefix_text_;
};

}  // namespace gpt

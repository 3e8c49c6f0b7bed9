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

// A model as tasks see it: texts in, log-probabilities and texts out. Texts become ids as in the `hf` model
// of lm-evaluation-harness 0.4.13: names of special tokens are those tokens, BOS stands in front where the
// tokenizer says so and the text does not begin with it, and what does not fit is cut off on the left.
class TaskModel {
 public:
  // All of them outlive it. step_rows: most ids in one forward call. chat: what is asked is a user's message
  // by this template, and the model writes the assistant's; null: it writes on. processes: that share what is
  // asked. Each of them asks the same and knows all answers, which are those of one.
  TaskModel(SequenceModel& model, const Tokenizer& tokenizer, const ModelConfig& config, int64_t step_rows,
            const ChatTemplate* chat = nullptr, Communicator& processes = single_process());

  // Of the continuations behind their contexts, encoded together: white space at the end of a context goes
  // to the continuation. An empty context is the BOS, or where there is none the EOS. Throws Error for a
  // continuation without ids of its own or of more than the context's length.
  std::vector<Score> scores(std::span<const TaskPrompt::Pair> pairs, const TaskProgress& progress = {});
  // Of whole texts, in windows that begin with BOS (or EOS), or with the last id before them.
  std::vector<double> rolling(std::span<const std::string> texts, const TaskProgress& progress = {});
  // `repeats` continuations of each context, up to the first of rule.until, without special tokens. Throws
  // Error where rule.max_tokens leaves no room for a context.
  std::vector<std::vector<std::string>> generate(std::span<const std::string> contexts,
                                                 const GenerationRule& rule, int64_t repeats, uint64_t seed,
                                                 const TaskProgress& progress = {});

  // What generate() gives the model to go on with: the context, by the chat template where there is one.
  std::string question_text(const std::string& context) const;

  std::vector<Score> score_ids(std::span<const ScoreRequest> requests, const TaskProgress& progress = {});
  const Tokenizer& tokenizer() const { return tokenizer_; }
  bool chats() const { return chat_ != nullptr; }
  int64_t n_ctx() const { return model_.n_ctx(); }
  // The BOS, or where there is none the EOS; -1: neither.
  int32_t prefix_id() const { return prefix_; }
  // Of all processes.
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
  // Of questions of which the first has the number `first`: `repeats` texts of each, one behind the other.
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

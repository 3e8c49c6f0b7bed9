#include "infer/feed.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace gpt {

ContextPolicy parse_context_policy(std::string_view name) {
  if (name == "stop") return ContextPolicy::stop;
  if (name == "crop") return ContextPolicy::crop;
  if (name == "slide") return ContextPolicy::slide;
  fail_parameter("context", "expected 'stop', 'crop' or 'slide', found '{}'", name);
}

void check_policy(const SequenceModel& model, ContextPolicy policy) {
  if (policy != ContextPolicy::slide || model.can_slide()) return;
  fail_parameter("policy",
                 "'slide' needs a model with rotary position embeddings, found {} learned positions; use "
                 "'crop' or 'stop'",
                 model.n_ctx());
}

void check_prompt(const SequenceModel& model, std::span<const int32_t> prompt, ContextPolicy policy,
                  const std::string& what) {
  if (prompt.empty()) {
    fail("{}: expected at least one token, found none; start with text, a newline or the model's BOS token",
         what);
  }
  const auto bad = std::find_if(prompt.begin(), prompt.end(),
                                [&](int32_t id) { return id < 0 || id >= model.vocab_size(); });
  if (bad != prompt.end()) {
    fail("{}: expected token ids from 0 to {}, found {} at position {}; use the tokenizer of this model",
         what, model.vocab_size() - 1, *bad, bad - prompt.begin());
  }
  if (policy == ContextPolicy::stop && std::ssize(prompt) > model.n_ctx()) {
    fail(
        "{}: expected at most {} tokens (the context length of the model), found {}; shorten it or use "
        "`policy` crop{}",
        what, model.n_ctx(), prompt.size(), model.can_slide() ? " or slide" : "");
  }
}

std::span<const int32_t> opening_ids(const SequenceModel& model, std::span<const int32_t> prompt,
                                     ContextPolicy policy) {
  if (policy != ContextPolicy::crop) return prompt;
  return prompt.last(std::min(prompt.size(), static_cast<size_t>(model.n_ctx())));
}

bool context_full(const SequenceModel& model, int slot, ContextPolicy policy) {
  return policy == ContextPolicy::stop && model.length(slot) >= model.n_ctx();
}

SequenceModel::Append following_ids(SequenceModel& model, int slot, std::span<const int32_t> ids,
                                    ContextPolicy policy, int adapter) {
  if (policy != ContextPolicy::crop || model.length(slot) < model.n_ctx()) return {slot, ids.last(1)};
  model.reset(slot, adapter);
  return {slot, opening_ids(model, ids, policy)};
}

void cut_batch(std::span<const SequenceModel::Append> appends, int64_t rows,
               const std::function<int64_t(int slot)>& room,
               const std::function<void(std::span<const SequenceModel::Append>, int64_t first)>& step) {
  int64_t first = 0;
  std::vector<SequenceModel::Append> batch;
  for (size_t next = 0, at = 0; next < appends.size();) {
    // A step contains as many sequences as fit. The last sequence may be split between two steps.
    batch.clear();
    int64_t wanted = 0;
    for (int64_t rows_left = rows; next < appends.size() && rows_left > 0;) {
      const SequenceModel::Append& a = appends[next];
      const std::span<const int32_t> left = a.ids.subspan(at);
      // Pass at least one id even to a full slot, so that the model reports the error.
      const int64_t n = std::min({std::ssize(left), rows_left, std::max<int64_t>(1, room(a.slot))});
      const int64_t rest = std::ssize(left) - n;
      batch.push_back(
          {a.slot, left.first(static_cast<size_t>(n)), std::clamp<int64_t>(a.wanted - rest, 0, n)});
      wanted += batch.back().wanted;
      rows_left -= n;
      at += static_cast<size_t>(n);
      if (rest > 0) break;
      ++next;
      at = 0;
    }
    step(batch, first);
    first += wanted;
  }
}

void feed(SequenceModel& model, std::span<const SequenceModel::Append> appends, int64_t chunk,
          const TensorView& logits) {
  GPT_ASSERT(chunk >= 1);
  cut_batch(
      appends, std::min(chunk, model.max_rows()), [&](int slot) { return model.room(slot); },
      [&](std::span<const SequenceModel::Append> batch, int64_t first) {
        model.forward(batch, logits.slice_rows(first, logits.rows() - first));
      });
}

}  // namespace gpt

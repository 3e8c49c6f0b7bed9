#include "infer/feed.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace gpt {

ContextPolicy parse_context_policy(std::string_view name) {
  if (name == "stop") return ContextPolicy::stop;
  if (name == "crop") return ContextPolicy::crop;
  if (name == "slide") return ContextPolicy::slide;
  fail_usage("--context: expected 'stop', 'crop' or 'slide', found '{}'", name);
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::eos:
      return "eos";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
  }
  return "stop";
}

void check_policy(const SequenceModel& model, ContextPolicy policy) {
  if (policy != ContextPolicy::slide || model.can_slide()) return;
  fail_usage(
      "--context: 'slide' needs a model with rotary positions, found learned ones, which end at {}: use "
      "'crop' or 'stop'",
      model.n_ctx());
}

void check_prompt(const SequenceModel& model, std::span<const int32_t> prompt, ContextPolicy policy,
                  const std::string& what) {
  if (prompt.empty()) {
    fail(
        "{}: expected at least one token, found none: begin with some text, a newline or the model's BOS "
        "token",
        what);
  }
  const auto bad = std::find_if(prompt.begin(), prompt.end(),
                                [&](int32_t id) { return id < 0 || id >= model.vocab_size(); });
  if (bad != prompt.end()) {
    fail(
        "{}: expected token ids from 0 to {}, found {} at position {}: does the tokenizer belong to this "
        "model?",
        what, model.vocab_size() - 1, *bad, bad - prompt.begin());
  }
  if (policy == ContextPolicy::stop && std::ssize(prompt) > model.n_ctx()) {
    fail("{}: expected at most {} tokens, the model's context, found {}: shorten it or use --context crop{}",
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
                                    ContextPolicy policy) {
  if (policy != ContextPolicy::crop || model.length(slot) < model.n_ctx()) return {slot, ids.last(1)};
  model.reset(slot);
  return {slot, opening_ids(model, ids, policy)};
}

void feed(SequenceModel& model, std::span<const SequenceModel::Append> appends, int64_t chunk,
          float* logits) {
  GPT_ASSERT(chunk >= 1);
  const auto V = static_cast<size_t>(model.vocab_size());
  const auto n_ctx = static_cast<size_t>(model.n_ctx());
  std::vector<std::span<const int32_t>> left;
  for (const SequenceModel::Append& append : appends)
    left.push_back(append.ids);
  std::vector<SequenceModel::Append> batch;
  std::vector<size_t> owners;  // the index in appends of each entry of the batch
  std::vector<float> rows;
  for (;;) {
    batch.clear();
    owners.clear();
    auto room = static_cast<size_t>(chunk);
    size_t completed = 0;
    for (size_t i = 0; i < left.size() && room > 0; ++i) {
      const size_t count = std::min({left[i].size(), room, n_ctx});
      if (count == 0) continue;
      batch.push_back({appends[i].slot, left[i].first(count)});
      owners.push_back(i);
      left[i] = left[i].subspan(count);
      room -= count;
      completed += left[i].empty();
    }
    if (batch.empty()) return;
    if (completed == appends.size()) return model.forward(batch, logits);  // the rows are in place
    if (completed == 0) {
      model.forward(batch, nullptr);
      continue;
    }
    rows.resize(batch.size() * V);
    model.forward(batch, rows.data());
    for (size_t b = 0; b < batch.size(); ++b) {
      if (left[owners[b]].empty()) std::copy_n(rows.data() + b * V, V, logits + owners[b] * V);
    }
  }
}

}  // namespace gpt

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "infer/sequence_model.h"

namespace gpt {

// Selects what happens when a sequence has filled the context.
enum class ContextPolicy {
  stop,   // ends the sequence with FinishReason::context
  crop,   // recomputes the last n_ctx ids for every token, with positions from 0; exact but slow; works with
          // any model
  slide,  // continues with attention over the last n_ctx positions; fast, but needs a model that can slide
};
// Parses "stop", "crop" or "slide". Throws invalid_argument for other names.
ContextPolicy parse_context_policy(std::string_view name);

// The reason why a sequence ended.
enum class FinishReason {
  stop,     // a stop id, or the caller's callback returned false
  eos,      // an end-of-sequence id
  length,   // max_tokens was reached
  context,  // the context is full
  error,    // no token could be sampled
  complete  // the request's constraint allows no further token
};

// Throws invalid_argument if the model does not support the policy.
void check_policy(const SequenceModel& model, ContextPolicy policy);

// Throws Error that names `what` if the prompt is empty, contains an id outside the vocabulary, or is longer
// than the context (with ContextPolicy::stop).
void check_prompt(const SequenceModel& model, std::span<const int32_t> prompt, ContextPolicy policy,
                  const std::string& what);

// Returns the part of a prompt to append to an empty slot: with `crop` at most the last n_ctx ids, otherwise
// all ids.
std::span<const int32_t> opening_ids(const SequenceModel& model, std::span<const int32_t> prompt,
                                     ContextPolicy policy);

// Returns true if the policy is `stop` and the slot is full.
bool context_full(const SequenceModel& model, int slot, ContextPolicy policy);

// Returns the ids to append to a slot. The slot holds all of `ids` (prompt and output) except the last id.
// Usually the result is only the last id. If the context is full under `crop`, the function resets the slot
// with the given adapter and returns the last n_ctx ids.
SequenceModel::Append following_ids(SequenceModel& model, int slot, std::span<const int32_t> ids,
                                    ContextPolicy policy, int adapter = -1);

// Splits a list of Append structs into steps. Each Append may have any length, but no two may have the same
// slot. A step has at most `rows` ids in total and at most room(slot) ids per slot. Calls step(batch, first)
// for each step, where `first` is the number of logits rows that all earlier steps have produced.
void cut_batch(std::span<const SequenceModel::Append> appends, int64_t rows,
               const std::function<int64_t(int slot)>& room,
               const std::function<void(std::span<const SequenceModel::Append>, int64_t first)>& step);

// Appends ids to several distinct slots, with at most `chunk` (>= 1) ids per forward call. Writes the logits
// after the last id of each append to logits[appends.size(), V].
void feed(SequenceModel& model, std::span<const SequenceModel::Append> appends, int64_t chunk,
          const TensorView& logits);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "infer/sequence_model.h"

namespace gpt {

// What the engine does when a sequence has filled the context.
enum class ContextPolicy {
  stop,   // ends the sequence with FinishReason::context
  crop,   // recomputes the last n_ctx ids for every token, with positions from 0: exact, slow, any model
  slide,  // continues with attention over the last n_ctx positions: fast, if the model can slide
};
ContextPolicy parse_context_policy(std::string_view name);  // "stop", "crop", "slide", else invalid_argument

// Why a sequence ended.
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

// Throws Error naming `what` if the prompt is empty, contains an id outside the vocabulary, or (policy stop)
// is longer than the context.
void check_prompt(const SequenceModel& model, std::span<const int32_t> prompt, ContextPolicy policy,
                  const std::string& what);

// Returns the part of a prompt to append to an empty slot: at most the last n_ctx ids with `crop`, else all.
std::span<const int32_t> opening_ids(const SequenceModel& model, std::span<const int32_t> prompt,
                                     ContextPolicy policy);

// Returns whether the slot is full under the policy `stop`.
bool context_full(const SequenceModel& model, int slot, ContextPolicy policy);

// Returns the ids to append to a slot that holds all of `ids` (prompt and output) except the last one. This
// is the last id, or, if the context is full under `crop`, the last n_ctx ids; then this function resets the
// slot, with the given adapter.
SequenceModel::Append following_ids(SequenceModel& model, int slot, std::span<const int32_t> ids,
                                    ContextPolicy policy, int adapter = -1);

// Splits appends of any length to distinct slots into steps of at most `rows` ids in total and room(slot) ids
// for each slot. Calls step(batch, first) for each step; first: number of wanted results of all earlier
// steps.
void cut_batch(std::span<const SequenceModel::Append> appends, int64_t rows,
               const std::function<int64_t(int slot)>& room,
               const std::function<void(std::span<const SequenceModel::Append>, int64_t first)>& step);

// Appends any number of ids to distinct slots, with at most `chunk` (>= 1) ids in a forward call, and writes
// the logits after the last id of each append to logits[appends.size(), V].
void feed(SequenceModel& model, std::span<const SequenceModel::Append> appends, int64_t chunk,
          const TensorView& logits);

}  // namespace gpt

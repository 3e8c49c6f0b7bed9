#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "infer/sequence_model.h"

namespace gpt {

// What happens when a sequence has filled the context.
enum class ContextPolicy {
  stop,   // it ends, with FinishReason::context
  crop,   // the last n_ctx ids are fed anew for every token, positions from 0: exact, slow, any model
  slide,  // it goes on, attention sees the last n_ctx positions: fast, where the model can slide
};
ContextPolicy parse_context_policy(std::string_view name);  // "stop", "crop", "slide", else invalid_argument

// Why a sequence ended.
enum class FinishReason {
  stop,     // a stop id, or the caller's callback said so
  eos,      // an end-of-sequence id
  length,   // the number of tokens asked for
  context,  // the context is full
  error,    // no token could be drawn
  complete  // nothing that the request's constraint allows can follow
};

// Throws invalid_argument when the model cannot follow the policy.
void check_policy(const SequenceModel& model, ContextPolicy policy);

// Throws Error, naming `what`, when the prompt is empty, holds an id outside the vocabulary or is longer
// than the context under the policy `stop`.
void check_prompt(const SequenceModel& model, std::span<const int32_t> prompt, ContextPolicy policy,
                  const std::string& what);

// The part of a prompt that an empty slot is fed: under `crop` at most its last n_ctx ids, else all.
std::span<const int32_t> opening_ids(const SequenceModel& model, std::span<const int32_t> prompt,
                                     ContextPolicy policy);

// Whether the slot can take no further id under the policy `stop`.
bool context_full(const SequenceModel& model, int slot, ContextPolicy policy);

// What to append to a slot that holds all of `ids` (prompt and output) but the last one: that one, or,
// when the context is full under `crop`, the last n_ctx ids, for which the slot is reset here, to an adapter.
SequenceModel::Append following_ids(SequenceModel& model, int slot, std::span<const int32_t> ids,
                                    ContextPolicy policy, int adapter = -1);

// Cuts appends of any length to distinct slots into steps of at most `rows` ids, room(slot) of a slot. Calls
// step(batch, first) for each; `first` wanted results come before those of the step.
void cut_batch(std::span<const SequenceModel::Append> appends, int64_t rows,
               const std::function<int64_t(int slot)>& room,
               const std::function<void(std::span<const SequenceModel::Append>, int64_t first)>& step);

// Appends any number of ids to distinct slots, at most `chunk` (>= 1) in one forward call over all
// slots, and writes the logits after the last id of each to logits[appends.size(), V].
void feed(SequenceModel& model, std::span<const SequenceModel::Append> appends, int64_t chunk,
          const TensorView& logits);

}  // namespace gpt

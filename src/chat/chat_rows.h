#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chat/chat_examples.h"

namespace gpt {

// A set of conversations with a common sampling weight.
struct ChatPart {
  std::string name;
  // Sampling weight. The conversations of an epoch are divided among the parts in proportion to their
  // weights. 0 means the number of conversations in `train`.
  double weight = 0;
  std::vector<ChatExample> train, held_out;
};

// With this limit, the sum of all weights and its product with the part sizes stay finite.
inline constexpr double kMostPartWeight = 1e12;

// Splits the examples into a training part and a held-out part. If the share `held_out` is not 0 and there
// are at least two examples, at least one is held out. The split depends only on the seed. Throws
// invalid_argument if the share is not in [0, 1) or the weight is not in [0, kMostPartWeight).
ChatPart make_chat_part(std::string name, double weight, std::vector<ChatExample> examples, double held_out,
                        uint64_t seed);

// Returns the training conversations of an epoch (counted from 0) in training order. An epoch has about as
// many conversations as all parts together, divided among the parts by weight. Each pass over a part uses a
// new shuffled order. An epoch continues the pass at the position at which the previous epoch stopped. The
// result depends only on the arguments. Throws Error if there are no conversations.
std::vector<const ChatExample*> chat_epoch(std::span<const ChatPart> parts, uint64_t seed, int64_t epoch);

// A training row of n_ctx ids: conversations one after the other, then padding.
struct ChatRow {
  std::vector<int32_t> ids;      // [n_ctx], 0 in the padding
  std::vector<int32_t> targets;  // [n_ctx], the next id; -1 if it is not trained on
  std::vector<float> weights;    // [n_ctx], weights of the targets
  std::vector<uint8_t> starts;   // [n_ctx], 1 where a conversation or the padding begins
};

// Packs conversations into rows. Each conversation is added to the first open row with enough room. At most
// `open` rows are open; the oldest one is closed to make room for a new one. The result is deterministic.
// Throws Error if a conversation has more than n_ctx + 1 ids.
std::vector<ChatRow> pack_chat_rows(std::span<const ChatExample* const> examples, int64_t n_ctx,
                                    int64_t open = 64);

}  // namespace gpt

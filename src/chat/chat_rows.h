#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chat/chat_examples.h"

namespace gpt {

// Conversations from one place, and how often they are seen beside those of others.
struct ChatPart {
  std::string name;
  double weight =
      0;  // its share of an epoch's conversations, in proportion to those of others; 0: as many as it has
  std::vector<ChatExample> train, held_out;
};

// The sum of the weights of parts, and its product with their sizes, stays finite.
inline constexpr double kMostPartWeight = 1e12;

// Holds out a share of the examples, at least one where there are two or more and the share is not 0: the
// same ones for a seed. Throws invalid_argument for a share outside of [0, 1) or a weight outside of
// [0, kMostPartWeight).
ChatPart make_chat_part(std::string name, double weight, std::vector<ChatExample> examples, double held_out,
                        uint64_t seed);

// The conversations of an epoch, counted from 0, in the order they are seen: as many as all parts have, from
// each its share. A part is gone through in an order of its own, anew from its beginning for each pass; what
// an epoch leaves out the next begins with. A function of the arguments alone. Throws Error where nothing is
// to be seen.
std::vector<const ChatExample*> chat_epoch(std::span<const ChatPart> parts, uint64_t seed, int64_t epoch);

// A row of n_ctx ids for training: conversations one behind the other, then padding.
struct ChatRow {
  std::vector<int32_t> ids;      // [n_ctx], 0 in the padding
  std::vector<int32_t> targets;  // [n_ctx], the id that follows; -1 where nothing counts
  std::vector<float> weights;    // [n_ctx], of the targets
  std::vector<uint8_t> starts;   // [n_ctx], 1 where a conversation or the padding begins
};

// Puts conversations into rows, each into the first of the open ones that has room for it; at most `open`
// are, and the oldest is closed for another. The same rows for the same conversations. Throws Error for one
// with more than n_ctx + 1 ids.
std::vector<ChatRow> pack_chat_rows(std::span<const ChatExample* const> examples, int64_t n_ctx,
                                    int64_t open = 64);

}  // namespace gpt

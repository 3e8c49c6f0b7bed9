#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "serve/openai/json_request.h"

namespace gpt::serve {

// Implements "truncation": "auto" as in OpenAI's Responses API. The oldest part of a prompt that fills the
// context is removed, by the same rule as in `gpt chat` (chat/conversation.h).
class Truncation {
 public:
  // Returns nullopt if the field is missing or "disabled". Throws ApiError for other values.
  static std::optional<Truncation> read(const Fields& fields, int64_t n_ctx);

  // Returns true if a prompt leaves room for fewer than max_tokens tokens and for less than a quarter of the
  // context.
  bool applies_to(int64_t prompt) const { return prompt + std::min(room_, n_ctx_ / 4) > n_ctx_; }
  int64_t kept_tokens() const { return n_ctx_ / 2; }

 private:
  Truncation(int64_t n_ctx, int64_t room) : n_ctx_(n_ctx), room_(room) {}
  int64_t n_ctx_, room_;  // room_: number of tokens wanted for the response
};

// Removes the oldest turns of a conversation, as few as possible, until at most kept_tokens() ids are left.
// The last turn and the system messages at the start are kept. `encode` returns the ids of a conversation.
// Returns the remaining ids and the number of removed messages.
struct ShorterConversation {
  std::vector<int32_t> ids;
  int64_t removed = 0;
};
ShorterConversation forget_turns(
    const nlohmann::ordered_json& conversation, const Truncation& truncation,
    const std::function<std::vector<int32_t>(const nlohmann::ordered_json&)>& encode);

// Removes tokens from the start of a prompt until kept_tokens() are left. If the prompt starts with the token
// `first`, this token is kept. Returns the number of removed tokens.
int64_t forget_tokens(std::vector<int32_t>& ids, const Truncation& truncation, int64_t first);

}  // namespace gpt::serve

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "serve/json_request.h"

namespace gpt::serve {

// "truncation": "auto" of a request, as OpenAI's responses have it: a prompt that fills the context loses its
// oldest part, by the rule of `gpt chat` (chat/conversation.h).
class Truncation {
 public:
  // Nothing where the field is absent or "disabled". Throws ApiError for other values.
  static std::optional<Truncation> read(const Fields& fields, int64_t n_ctx);

  // Whether a prompt leaves neither max_tokens nor a quarter of the context.
  bool applies_to(int64_t prompt) const { return prompt + std::min(room_, n_ctx_ / 4) > n_ctx_; }
  int64_t kept_tokens() const { return n_ctx_ / 2; }

 private:
  Truncation(int64_t n_ctx, int64_t room) : n_ctx_(n_ctx), room_(room) {}
  int64_t n_ctx_, room_;  // room_: tokens for the response, if there is space for them
};

// Removes the oldest turns of a conversation, as few as possible, until at most kept_tokens() are left. Keeps
// the last turn and the system messages at the beginning. encode: returns the ids of a conversation. Returns
// the ids of the rest and the number of removed messages.
struct ShorterConversation {
  std::vector<int32_t> ids;
  int64_t removed = 0;
};
ShorterConversation forget_turns(
    const nlohmann::ordered_json& conversation, const Truncation& truncation,
    const std::function<std::vector<int32_t>(const nlohmann::ordered_json&)>& encode);

// Removes the first tokens of a prompt so that kept_tokens() are left; `first`, if it has one, stays in
// front. Returns the number of removed tokens.
int64_t forget_tokens(std::vector<int32_t>& ids, const Truncation& truncation, int64_t first);

}  // namespace gpt::serve

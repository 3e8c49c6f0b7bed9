#include "chat/conversation.h"

#include "base/error.h"
#include "base/format.h"

namespace gpt {

std::vector<int32_t> Conversation::ids_from(size_t first) const {
  std::vector<ChatMessage> opening;
  if (!system_.empty()) opening.push_back({"system", system_});
  opening.push_back({"user", turns_[first].user});
  std::vector<int32_t> ids = format_.encode(opening, true);
  for (size_t i = first + 1; i < turns_.size(); ++i) {
    const std::vector<int32_t>& answer = turns_[i - 1].answer;
    ids.insert(ids.end(), answer.begin(), answer.end());
    ids.push_back(format_.end_id());
    const std::vector<int32_t> turn = format_.encode_turn(turns_[i].user);
    ids.insert(ids.end(), turn.begin(), turn.end());
  }
  return ids;
}

std::vector<int32_t> Conversation::ask(const std::string& user, int64_t room) {
  turns_.push_back({user, {}});
  size_t first = 0;
  std::vector<int32_t> ids;
  try {
    ids = ids_from(first);
    if (std::ssize(ids) + std::min(room, n_ctx_ / 4) > n_ctx_) {
      while (std::ssize(ids) > n_ctx_ / 2 && first + 1 < turns_.size())
        ids = ids_from(++first);
    }
    if (std::ssize(ids) >= n_ctx_) {
      fail(
          "the message is too long: with what comes before it there are {}, the context has {}; shorten it, "
          "or "
          "raise --n-ctx if the model allows",
          format_amount(std::ssize(ids), "token"), format_thousands(n_ctx_));
    }
  } catch (const Error&) {
    turns_.pop_back();
    throw;
  }
  turns_.erase(turns_.begin(), turns_.begin() + static_cast<std::ptrdiff_t>(first));
  forgotten_ = static_cast<int64_t>(first);
  return ids;
}

void Conversation::answer(std::vector<int32_t> ids) {
  turns_.back().answer = std::move(ids);
}

}  // namespace gpt

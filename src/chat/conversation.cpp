#include "chat/conversation.h"

#include "base/error.h"
#include "base/format.h"

namespace gpt {
namespace {

// A model with a larger vocabulary may sample ids that the tokenizer does not have. These ids have no text.
std::string text_of(const Tokenizer& tokenizer, std::vector<int32_t> answer) {
  std::erase_if(answer, [&](int32_t id) { return id >= tokenizer.vocab_size(); });
  return tokenizer.decode(answer);
}

}  // namespace

std::vector<int32_t> Conversation::ids_from(size_t first) const {
  std::vector<ChatMessage> opening;
  if (!system_.empty()) opening.push_back({"system", system_});
  opening.push_back({"user", turns_[first].user});
  std::vector<int32_t> ids = format_.encode(opening, true);
  bool goes_on = true;
  std::vector<ChatMessage> messages = std::move(opening);
  for (size_t i = first + 1; i < turns_.size(); ++i) {
    const std::vector<int32_t>& answer = turns_[i - 1].answer;
    messages.push_back({"assistant", text_of(format_.tokenizer(), answer)});
    const auto turn = goes_on ? format_.encode_turn(messages, turns_[i].user) : std::nullopt;
    messages.push_back({"user", turns_[i].user});
    goes_on = turn.has_value();
    if (!goes_on) continue;
    ids.insert(ids.end(), answer.begin(), answer.end());
    ids.push_back(format_.end_id());
    ids.insert(ids.end(), turn->begin(), turn->end());
  }
  return goes_on ? ids : format_.encode(messages, true);
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
          "the message is too long: the conversation has {}, but the context length is {}; shorten the "
          "message, or raise `n_ctx` if the model allows it",
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

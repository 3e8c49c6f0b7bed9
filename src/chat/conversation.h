#pragma once

#include <string>
#include <vector>

#include "text/chat_template.h"

namespace gpt {

// A conversation as token ids that fit into a context: an old turn is forgotten when there is no room for a
// new one, the system message never. Answers stay the ids that the model gave, so that what the model has
// computed of them stays true, unless the template writes them anew when another message follows.
class Conversation {
 public:
  // The template must outlive the object. `n_ctx`: ids of a conversation with its answers. No
  // system message where it is empty.
  Conversation(const ChatTemplate& format, std::string system, int64_t n_ctx)
      : format_(format), system_(std::move(system)), n_ctx_(n_ctx) {}

  // Adds a message of the user and gives the ids up to where the answer begins. `room`: of those for the
  // answer. Where they leave less, or less than a quarter of the context, as many of the oldest turns go as
  // make them half of the context. Throws Error, and leaves the conversation as it was, for a message that
  // fits into no context.
  std::vector<int32_t> ask(const std::string& user, int64_t room);
  // What the model said to that, without the token that ended it.
  void answer(std::vector<int32_t> ids);
  void reset() { turns_.clear(); }

  // Turns that the last `ask` forgot.
  int64_t forgotten() const { return forgotten_; }
  int64_t turns() const { return std::ssize(turns_); }

 private:
  struct Turn {
    std::string user;
    std::vector<int32_t> answer;
  };
  std::vector<int32_t> ids_from(size_t first) const;

  const ChatTemplate& format_;
  std::string system_;
  int64_t n_ctx_;
  std::vector<Turn> turns_;
  int64_t forgotten_ = 0;
};

}  // namespace gpt

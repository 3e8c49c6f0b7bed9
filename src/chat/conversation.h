#pragma once

#include <string>
#include <vector>

#include "text/chat_template.h"

namespace gpt {

// Builds the token ids of a conversation so that they fit into a context. If there is no room for a new turn,
// the oldest turns are dropped, but never the system message. Responses keep the ids that the model
// generated, so that the KV cache stays valid. The responses are re-encoded only if the template renders them
// differently after a new message.
class Conversation {
 public:
  // The template must outlive the object. An empty `system` means no system message. `n_ctx` limits the
  // number of ids of a conversation, responses included.
  Conversation(const ChatTemplate& format, std::string system, int64_t n_ctx)
      : format_(format), system_(std::move(system)), n_ctx_(n_ctx) {}

  // Adds a user message and returns the ids up to the start of the response. `room` is the number of ids to
  // reserve for the response, but at most a quarter of the context is reserved. If the remaining context is
  // smaller than this reserve, the oldest turns are dropped until the ids take at most half of the context.
  // Throws Error and leaves the conversation unchanged if the message does not fit into the context.
  std::vector<int32_t> ask(const std::string& user, int64_t room);
  // Stores the response to the last message, without the token that ended it.
  void answer(std::vector<int32_t> ids);
  void reset() { turns_.clear(); }

  // Returns the number of turns that the last call of `ask` dropped.
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

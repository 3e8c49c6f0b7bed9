#pragma once

#include <functional>
#include <memory>
#include <string>

#include "generation.h"

namespace gpt {

struct ChatArguments {
  GenerateArguments generate;
  std::string system, format, message;
  std::string key_file, server_model;  // of a server
  int64_t n_ctx = 0;                   // 0: the model's, at most 8192
};

// Who answers in `gpt chat`: a model here, or a server's. It remembers the conversation.
class ChatPartner {
 public:
  virtual ~ChatPartner() = default;
  // What a person is told of it at first.
  virtual std::string greeting() const = 0;

  struct Answer {
    int64_t tokens = 0;
    bool was_cut = false;  // because the context is full
    // For --json.
    std::string record;
    std::string note = {};  // on how it was computed, for a person
  };
  // Calls `show` with the answer's text as it comes. Throws Error, or another runtime_error; the conversation
  // is then as it was before.
  virtual Answer say(const std::string& message, const std::function<void(const std::string&)>& show) = 0;
  // Ends the answer that is coming, which is then kept as far as it came. Async-signal-safe.
  virtual void cancel() = 0;
  virtual void reset() = 0;
};

std::unique_ptr<ChatPartner> make_local_partner(const ChatArguments& arguments);

// Whether MODEL is a server's address, http://...
bool is_server(const std::string& model);
// Throws invalid_argument for https, for addresses that are none, and for flags that are about a model here.
std::unique_ptr<ChatPartner> make_remote_partner(const ChatArguments& arguments);

}  // namespace gpt

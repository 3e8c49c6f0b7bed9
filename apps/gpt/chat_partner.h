#pragma once

#include <functional>
#include <memory>
#include <string>

#include "generation.h"

namespace gpt {

struct ChatArguments {
  GenerateArguments generate;
  std::string system, format, message;
  std::string key_file, server_model;  // for a server: file with the API key, and name of the model
  int64_t n_ctx = 0;                   // 0: the model's context length, at most 8192
};

// The model that responds in `gpt chat`: a local model or a server. Remembers the conversation.
class ChatPartner {
 public:
  virtual ~ChatPartner() = default;
  // Returns the line that is shown to the user at the start.
  virtual std::string greeting() const = 0;

  struct Answer {
    int64_t tokens = 0;
    bool was_cut = false;  // true if the response ended because the context is full
    // The response as JSON, for --json.
    std::string record;
    std::string note = {};  // shown to the user after the response, e.g. how many draft tokens were accepted
  };
  // Generates the response to a message and calls `show` with each new piece of its text. Throws Error or
  // another runtime_error; the conversation is then unchanged.
  virtual Answer say(const std::string& message, const std::function<void(const std::string&)>& show) = 0;
  // Ends the response in progress; the text generated so far is kept. Async-signal-safe.
  virtual void cancel() = 0;
  virtual void reset() = 0;
};

std::unique_ptr<ChatPartner> make_local_partner(const ChatArguments& arguments);

// Returns true if MODEL is the address of a server, http://...
bool is_server(const std::string& model);
// Connects to a server. Throws invalid_argument for https, for invalid addresses, and for flags that only
// apply to a local model.
std::unique_ptr<ChatPartner> make_remote_partner(const ChatArguments& arguments);

}  // namespace gpt

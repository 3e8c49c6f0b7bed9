#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/served_model.h"

namespace gpt::serve {

// The models of a server, by name. Any thread.
class ModelSet {
 public:
  using Handle = std::shared_ptr<ServedModel>;

  // Throws invalid_argument where a name is taken.
  void add(Handle model);
  // Puts a model in the place of the one of its name, which goes on for those who have it already.
  void replace(Handle model);
  // Ends replaced models that nobody has any more. Not on the thread of a model.
  void drop_replaced();
  // No request finds it any more; those under way hold it. Throws ApiError (404).
  Handle remove(const std::string& name);

  struct Found {
    Handle model;
    std::shared_ptr<const NamedAdapter> named = nullptr;  // holds the adapter
    int adapter = -1;                                     // its number; -1: none
    std::string name;                                     // as the answer names it
    uint64_t salt = 0;                                    // of the request, as Request has it
  };
  // What the field "model" of a request means: a model, "MODEL:ADAPTER", or an adapter that only one model
  // has; "": the first model. Throws ApiError (404).
  Found find(const std::string& name) const;
  std::vector<Handle> all() const;
  // Held from the look at a model's adapters to the change that follows from it, so that none is lost.
  std::mutex& adapter_changes() { return adapter_changes_; }
  void stop();  // all workers

 private:
  std::mutex adapter_changes_;
  mutable std::mutex mutex_;
  std::vector<Handle> models_;
  std::vector<Handle> replaced_;  // so that the last one who has a model is never its own thread
};

}  // namespace gpt::serve

#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/models/served_model.h"

namespace gpt::serve {

// The models of a server, by name. Thread-safe.
class ModelSet {
 public:
  using Handle = std::shared_ptr<ServedModel>;

  // Throws invalid_argument if the name is already in use.
  void add(Handle model);
  // Replaces the model of the same name. Requests that already hold the old model can keep using it.
  void replace(Handle model);
  // Destroys replaced models that are no longer in use. Must not be called on the worker thread of a model.
  void drop_replaced();
  // Removes a model so that new requests do not find it. Requests in flight keep it alive. Throws ApiError
  // (404) if there is no such model.
  Handle remove(const std::string& name);

  struct Found {
    Handle model;
    std::shared_ptr<const NamedAdapter> named = nullptr;  // keeps the adapter alive
    int adapter = -1;                                     // number of the adapter; -1: none
    std::string name;                                     // name of the model in the response
    uint64_t salt = 0;                                    // see Request::salt
  };
  // Resolves the field "model" of a request: a model, "MODEL:ADAPTER", or an adapter that only one model has.
  // "" means the first model. Throws ApiError (404) if there is no match.
  Found find(const std::string& name) const;
  std::vector<Handle> all() const;
  // Must be locked while a caller reads a model's adapters and changes them, so that no concurrent change is
  // lost.
  std::mutex& adapter_changes() { return adapter_changes_; }
  void stop();  // stops all workers

 private:
  std::mutex adapter_changes_;
  mutable std::mutex mutex_;
  std::vector<Handle> models_;
  std::vector<Handle> replaced_;  // kept so that a model is never destroyed on its own worker thread
};

// Decides which requests share cached prompt prefixes: requests of the same client with the same
// "cache_salt". Otherwise, the time of a response would reveal which prompts other clients have sent.
// Thread-safe.
class PrefixSalts {
 public:
  // Returns the value for Request::salt. The least recently used pair of client and salt is forgotten if
  // there are too many. A forgotten pair later receives a different value.
  uint64_t of(size_t client, const std::string& salt);
  static constexpr size_t kMost = 4096, kLongest = 256;  // number of pairs; bytes of a salt

 private:
  using Pair = std::pair<size_t, std::string>;
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::list<std::pair<Pair, uint64_t>> used_;  // most recently used first
  std::map<Pair, std::list<std::pair<Pair, uint64_t>>::iterator> known_;
};

}  // namespace gpt::serve

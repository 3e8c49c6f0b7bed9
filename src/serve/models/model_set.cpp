#include "serve/models/model_set.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "serve/api_error.h"

namespace gpt::serve {

namespace {

[[noreturn]] void fail_unknown(const std::string& name) {
  throw ApiError(404,
                 fmt::format("the model \"{}\" does not exist; GET /v1/models lists the available models",
                             printable_text(name, 64)),
                 "model", "model_not_found");
}

}  // namespace

void ModelSet::add(Handle model) {
  const std::lock_guard lock(mutex_);
  for (const Handle& other : models_) {
    if (other->name() == model->name())
      fail_usage("two models have the name {}; rename one with NAME=PATH", model->name());
  }
  models_.push_back(std::move(model));
}

void ModelSet::replace(Handle model) {
  const std::lock_guard lock(mutex_);
  for (Handle& other : models_) {
    if (other->name() != model->name()) continue;
    replaced_.push_back(std::exchange(other, std::move(model)));
    return;
  }
}

void ModelSet::drop_replaced() {
  std::vector<Handle> unused;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  // A replaced model cannot be found any more, so its use count of 1 cannot increase.
  std::erase_if(replaced_, [&](Handle& model) {
    if (model.use_count() > 1) return false;
    unused.push_back(std::move(model));
    return true;
  });
}

ModelSet::Handle ModelSet::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(models_, [&](const Handle& m) { return m->name() == name; });
  if (found == models_.end()) fail_unknown(name);
  Handle model = std::move(*found);
  models_.erase(found);
  return model;
}

ModelSet::Found ModelSet::find(const std::string& name) const {
  const std::vector<Handle> models = all();
  if (models.empty())
    throw ApiError(404, "no model is loaded; POST /models/load loads one", "model", "model_not_found");
  if (name.empty()) return {.model = models.front(), .name = models.front()->name()};
  std::vector<Found> with_adapter;
  for (const Handle& model : models) {
    if (model->name() == name) return {.model = model, .name = name};
    const std::string prefix = model->name() + ":";
    const bool named = name.starts_with(prefix);
    const auto adapter = model->adapter(named ? std::string_view(name).substr(prefix.size()) : name);
    if (adapter) with_adapter.push_back({model, adapter, adapter->number, name});
  }
  if (with_adapter.size() != 1) fail_unknown(name);
  return with_adapter.front();
}

std::vector<ModelSet::Handle> ModelSet::all() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

void ModelSet::stop() {
  std::vector<Handle> models = all();
  {
    const std::lock_guard lock(mutex_);
    models.insert(models.end(), replaced_.begin(), replaced_.end());
  }
  for (const Handle& model : models)
    model->worker().stop();
}

uint64_t PrefixSalts::of(size_t client, const std::string& salt) {
  if (client == 0 && salt.empty()) return 0;
  const std::lock_guard lock(mutex_);
  const Pair pair(client, salt);
  if (const auto known = known_.find(pair); known != known_.end()) {
    used_.splice(used_.begin(), used_, known->second);
    return used_.front().second;
  }
  used_.emplace_front(pair, ++last_);
  known_[pair] = used_.begin();
  if (used_.size() > kMost) {
    known_.erase(used_.back().first);
    used_.pop_back();
  }
  return last_;
}

}  // namespace gpt::serve

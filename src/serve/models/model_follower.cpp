#include "serve/models/model_follower.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/ranges.h"
#include "base/thread.h"
#include "model/model_files.h"
#include "serve/models/run_watch.h"

namespace gpt::serve {
namespace {

namespace fs = std::filesystem;

// Returns the version of the newest checkpoint in a run folder, or "" for other models. A checkpoint is
// identified by its manifest, which is written last.
std::string checkpoint_of(const ServedModel& model) {
  const std::string& path = model.options().path;
  std::error_code error;
  if (!is_run(path) || !fs::is_directory(path, error)) return "";
  try {
    const std::string folder = resolve_model_path(path), version = file_version(folder + "/manifest.json");
    return version.empty() ? "" : folder + " " + version;
  } catch (const Error&) {  // there is no checkpoint yet
    return "";
  }
}

}  // namespace

ModelFollower::ModelFollower(ModelSet& models, Options options)
    : models_(models), options_(std::move(options)) {
  for (const auto& model : models_.all())
    versions_[model->name()] = checkpoint_of(*model);
  thread_ = start_thread("the checkpoint watcher", [this] { loop(); });
}

ModelFollower::~ModelFollower() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ModelFollower::loop() {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> pause(options_.pause);
  while (!wake_.wait_for(lock, pause, [this] { return ending_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void ModelFollower::look() {
  for (const auto& model : models_.all()) {
    const std::string version = checkpoint_of(*model);
    const auto [known, is_new] = versions_.try_emplace(model->name(), version);
    if (is_new || version.empty() || version == known->second) continue;
    known->second = version;
    load(*model);
  }
  models_.drop_replaced();
}

// If the new checkpoint cannot be loaded, the server keeps using the old model.
void ModelFollower::load(const ServedModel& model) {
  std::string line;
  try {
    const std::lock_guard lock(models_.adapter_changes());
    ServedModelOptions options = model.options();
    options.note = {};  // the old model has already reported these messages
    options.adapters = transformed(model.adapters(), [](const auto& adapter) { return *adapter; });
    models_.replace(std::make_shared<ServedModel>(options));
    line = fmt::format("{}: new requests use the newest checkpoint", model.name());
  } catch (const std::exception& error) {
    line =
        fmt::format("{}: continues to use the previous checkpoint, because the newest cannot be loaded: {}",
                    model.name(), error.what());
  }
  if (options_.note) options_.note(line + "\n");
}

}  // namespace gpt::serve

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "serve/call.h"
#include "serve/metrics.h"
#include "serve/models/model_set.h"
#include "serve/models/run_watch.h"
#include "serve/openai/generation_params.h"
#include "serve/work_thread.h"

namespace gpt::serve {

// The models and adapters that clients may load and unload: the contents of one folder, identified by their
// file or folder names.
struct ModelFolder {
  std::string path = {};  // "": clients may not load anything
  int64_t most = 4;       // maximum number of models loaded at the same time
  std::function<ServedModelOptions(const std::string& name, const std::string& path)> options = {};
};

// Returns the path of `name` or NAME.gguf in the folder. Throws ApiError: 403 if the server has no folder,
// 404 if the folder does not contain the name, 400 if the name is not a plain file name. `field` is the
// request field to name in the error.
std::string path_in(const ModelFolder& folder, const std::string& name, const char* field);

// The objects that endpoints use. These objects outlive every call.
struct Service {
  ModelSet& models;
  RequestLimits limits;
  Metrics& metrics;
  PrefixSalts& salts;
  ModelFolder folder;
  RunList& runs;  // used only on the watching thread
  // Threads for slow work other than preparing requests: compiling grammars, traces, reading run folders.
  WorkThread &compiling, &tracing, &watching;
  const std::atomic<bool>& draining;            // the server is shutting down
  const std::function<int64_t()>& connections;  // returns the number of connections; may be empty
  bool has_chat;                                // false: the server has no models, only runs
};

// The functions of endpoint_table.
void chat_completions(const Service& service, const std::shared_ptr<Call>& call);
void completions(const Service& service, const std::shared_ptr<Call>& call);
void embeddings(const Service& service, const std::shared_ptr<Call>& call);
void list_models(const Service& service, const std::shared_ptr<Call>& call);
void show_model(const Service& service, const std::shared_ptr<Call>& call);
void tokenize(const Service& service, const std::shared_ptr<Call>& call);
void detokenize(const Service& service, const std::shared_ptr<Call>& call);
void apply_template(const Service& service, const std::shared_ptr<Call>& call);
void load_model(const Service& service, const std::shared_ptr<Call>& call);
void unload_model(const Service& service, const std::shared_ptr<Call>& call);
void load_adapter(const Service& service, const std::shared_ptr<Call>& call);
void unload_adapter(const Service& service, const std::shared_ptr<Call>& call);
void trace(const Service& service, const std::shared_ptr<Call>& call);
void list_runs(const Service& service, const std::shared_ptr<Call>& call);
void show_run(const Service& service, const std::shared_ptr<Call>& call);
void show_run_report(const Service& service, const std::shared_ptr<Call>& call);

}  // namespace gpt::serve

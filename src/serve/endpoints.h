#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "serve/call.h"
#include "serve/generation_params.h"
#include "serve/metrics.h"
#include "serve/model_folder.h"
#include "serve/model_set.h"
#include "serve/prefix_salts.h"
#include "serve/run_watch.h"
#include "serve/work_thread.h"

namespace gpt::serve {

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

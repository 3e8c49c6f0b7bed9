#pragma once

#include <memory>

#include "serve/call.h"
#include "serve/generation_params.h"
#include "serve/metrics.h"
#include "serve/model_folder.h"
#include "serve/model_set.h"
#include "serve/prefix_salts.h"
#include "serve/work_thread.h"

namespace gpt::serve {

// What endpoints work with; it outlives every call.
struct Service {
  ModelSet& models;
  RequestLimits limits;
  Metrics& metrics;
  PrefixSalts& salts;
  ModelFolder folder;
  WorkThread& compiling;  // where grammars are compiled
};

// Each answers one call, now or later, or throws what the client is told (current_error).
void chat_completions(const Service& service, const std::shared_ptr<Call>& call);
void completions(const Service& service, const std::shared_ptr<Call>& call);
void embeddings(const Service& service, const std::shared_ptr<Call>& call);
void list_models(const Service& service, const std::shared_ptr<Call>& call);
void show_model(const Service& service, const std::shared_ptr<Call>& call);  // /v1/models/NAME
void tokenize(const Service& service, const std::shared_ptr<Call>& call);
void detokenize(const Service& service, const std::shared_ptr<Call>& call);
void apply_template(const Service& service, const std::shared_ptr<Call>& call);
void load_model(const Service& service, const std::shared_ptr<Call>& call);
void unload_model(const Service& service, const std::shared_ptr<Call>& call);
void load_adapter(const Service& service, const std::shared_ptr<Call>& call);
void unload_adapter(const Service& service, const std::shared_ptr<Call>& call);

}  // namespace gpt::serve

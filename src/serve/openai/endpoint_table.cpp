#include "serve/openai/api_reference.h"
#include "serve/openai/endpoints.h"
#include "serve/openai/responses.h"
#include "serve/pages/pages.h"
#include "serve/router.h"

namespace gpt::serve {
namespace {

void health(const Service& service, const std::shared_ptr<Call>& call) {
  const bool draining = service.draining;
  call->send({.status = draining ? 503 : 200, .body = json_of(HealthResponse{draining ? "draining" : "ok"})});
}

void show_metrics(const Service& service, const std::shared_ptr<Call>& call) {
  const int64_t connections = service.connections ? service.connections() : 0;
  call->send({.body = service.metrics.page(service.models, connections),
              .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

void show_openapi(const Service&, const std::shared_ptr<Call>& call) {
  call->send({.body = openapi_document()});
}

// Returns an endpoint that loads or unloads a model or adapter.
Endpoint loading(const char* path, const char* help, const char* request,
                 void (*run)(const Service&, const std::shared_ptr<Call>&)) {
  return {.method = "POST",
          .path = path,
          .help = help,
          .runs = Runs::on_loading,
          .request = request,
          .response = "LoadResponse",
          .errors = {{403, "The server does not load models at run time."}},
          .run = run};
}

std::vector<Endpoint> openai_endpoints() {
  return {{.method = "POST",
           .path = "/v1/chat/completions",
           .help = "Respond to a conversation, completely or as a stream of events",
           .runs = Runs::on_preparing,
           .request = "ChatRequest",
           .response = "ChatResponse",
           .streams = true,
           .header = {.name = "X-Truncated-Messages",
                      .help = "Number of messages that \"truncation\": \"auto\" removed",
                      .type = "integer"},
           .run = chat_completions},
          {.method = "POST",
           .path = "/v1/completions",
           .help = "Continue texts, completely or as a stream of events",
           .runs = Runs::on_preparing,
           .request = "CompletionRequest",
           .response = "CompletionResponse",
           .streams = true,
           .header = {.name = "X-Truncated-Tokens",
                      .help = "Number of prompt tokens that \"truncation\": \"auto\" removed",
                      .type = "integer"},
           .run = completions},
          {.method = "POST",
           .path = "/v1/embeddings",
           .help = "Return embeddings: the mean of the hidden states of a text, normalized to length 1",
           .runs = Runs::on_preparing,
           .request = "EmbeddingsRequest",
           .response = "EmbeddingsResponse",
           .run = embeddings},
          {.method = "GET",
           .path = "/v1/models",
           .help = "List the models and their adapters",
           .response = "ModelsResponse",
           .run = list_models},
          {.method = "GET",
           .path = "/v1/models/*",
           .help = "Describe a model or adapter",
           .below = "model",
           .response = "Model",
           .run = show_model}};
}

std::vector<Endpoint> other_model_endpoints() {
  std::vector<Endpoint> list = {
      {.method = "POST",
       .path = "/tokenize",
       .help = "Convert a text or a conversation to token ids",
       .runs = Runs::on_preparing,
       .request = "TokenizeRequest",
       .response = "TokenizeResponse",
       .run = tokenize},
      {.method = "POST",
       .path = "/detokenize",
       .help = "Convert token ids to text",
       .runs = Runs::on_preparing,
       .request = "DetokenizeRequest",
       .response = "DetokenizeResponse",
       .run = detokenize},
      {.method = "POST",
       .path = "/apply-template",
       .help = "Render a conversation with the chat template of the model",
       .runs = Runs::on_preparing,
       .request = "TemplateRequest",
       .response = "TemplateResponse",
       .run = apply_template},
      loading("/models/load", "Load a model from the model folder of the server", "LoadRequest", load_model),
      loading("/models/unload", "Unload a model after its running requests have ended", "LoadRequest",
              unload_model),
      loading("/v1/load_lora_adapter", "Load a LoRA adapter from the model folder of the server",
              "LoadAdapterRequest", load_adapter),
      loading("/v1/unload_lora_adapter", "Unload a LoRA adapter", "UnloadAdapterRequest", unload_adapter),
      {.method = "POST",
       .path = "/trace",
       .help = "Return a page with all intermediate results of a model for a text, as "
               "written by gpt trace",
       .runs = Runs::on_preparing,
       .request = "TraceRequest",
       .content_type = "text/html",
       .run = trace}};
  for (Endpoint& endpoint : list) {
    if (endpoint.run == load_model)
      endpoint.errors.emplace_back(409, "The maximum number of models is loaded.");
  }
  return list;
}

std::vector<Endpoint> server_endpoints() {
  return {{.method = "GET",
           .path = "/training/runs",
           .help = "List the training runs with their latest metrics",
           .runs = Runs::on_watching,
           .response = "RunsResponse",
           .run = list_runs},
          {.method = "GET",
           .path = "/training/runs/*",
           .help = "Return a training run with its curves and newest samples",
           .below = "run",
           .runs = Runs::on_watching,
           .response = "Run",
           .run = show_run},
          {.method = "GET",
           .path = "/training/reports/*",
           .help = "Return the newest report that a training run has written",
           .below = "run",
           .runs = Runs::on_watching,
           .content_type = "text/html",
           .errors = {{400, "The run has no report yet."}},
           .run = show_run_report},
          {.method = "GET",
           .path = "/health",
           .help = "Return 200, or 503 while the server shuts down",
           .open = true,
           .response = "HealthResponse",
           .errors = {{503, "The server is shutting down or overloaded."}},
           .run = health},
          {.method = "GET",
           .path = "/metrics",
           .help = "Return counters and histograms in the text format of Prometheus",
           .content_type = "text/plain",
           .run = show_metrics},
          {.method = "GET",
           .path = "/openapi.json",
           .help = "Return this reference as an OpenAPI document",
           .open = true,
           .run = show_openapi}};
}

}  // namespace

const std::vector<Endpoint>& endpoint_table() {
  static const std::vector<Endpoint> table = [] {
    std::vector<Endpoint> all = openai_endpoints();
    for (const auto& part : {other_model_endpoints(), server_endpoints(), page_endpoints()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

}  // namespace gpt::serve

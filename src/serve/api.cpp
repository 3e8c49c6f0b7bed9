#include "serve/api.h"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "serve/api_error.h"
#include "serve/json_text.h"
#include "serve/pages.h"

namespace gpt::detail {
const char* serve_page_script();
}

namespace gpt::serve {
namespace {

// Maximum number of queued requests for each thread.
constexpr size_t kMostPreparing = 1024, kMostCompiling = 256, kMostLoading = 16, kMostTracing = 8,
                 kMostWatching = 64;

std::string log_line(const CallRecord& r) {
  std::string line = fmt::format(
      "{{\"time\":{},\"id\":\"{}\",\"peer\":\"{}\",\"method\":", std::time(nullptr), r.id, r.peer);
  append_json(line, printable_text(r.method, 16));
  line += ",\"path\":";
  append_json(line, printable_text(r.path, 128));
  line += fmt::format(",\"status\":{},\"seconds\":{:.4f}", r.status, r.seconds);
  if (!r.model.empty()) {
    line += ",\"model\":";
    append_json(line, r.model);
  }
  if (r.usage.prompt > 0)
    line += fmt::format(",\"prompt_tokens\":{},\"completion_tokens\":{},\"cached_tokens\":{}", r.usage.prompt,
                        r.usage.completion, r.usage.cached);
  for (const std::string& warning : r.warnings) {
    line += &warning == r.warnings.data() ? ",\"warnings\":[" : ",";
    append_json(line, warning);
  }
  if (!r.warnings.empty()) line += "]";
  if (!r.traceparent.empty()) line += fmt::format(",\"traceparent\":\"{}\"", r.traceparent);
  return line + "}";
}

}  // namespace

Api::Api(ModelSet& models, ApiOptions options)
    : models_(models),
      options_(std::move(options)),
      runs_(models_, options_.runs),
      service_{models_, options_.limits, metrics_, salts_,   options_.folder,
               runs_,   compiling_,      tracing_, watching_},
      rate_(options_.per_minute),
      compiling_(kMostCompiling),
      tracing_(kMostTracing),
      watching_(kMostWatching),
      loading_(kMostLoading),
      preparing_(kMostPreparing) {
  add_endpoints();
}

void Api::add_endpoints() {
  using Answer = void (*)(const Service&, const std::shared_ptr<Call>&);
  const auto add = [&](const char* method, const char* path, Answer run) {
    const bool post = method == std::string_view("POST");
    const bool loads = std::string_view(path).find("load") != std::string_view::npos;
    router_.add({.method = method,
                 .path = path,
                 .prepares = post,
                 .loads = loads,
                 .run = [this, run](const auto& call) { run(service_, call); }});
  };
  add("POST", "/v1/chat/completions", chat_completions);
  add("POST", "/v1/completions", completions);
  add("POST", "/v1/embeddings", embeddings);
  add("GET", "/v1/models", list_models);
  add("GET", "/v1/models/*", show_model);
  add("POST", "/tokenize", tokenize);
  add("POST", "/detokenize", detokenize);
  add("POST", "/apply-template", apply_template);
  add("POST", "/models/load", load_model);
  add("POST", "/models/unload", unload_model);
  add("POST", "/v1/load_lora_adapter", load_adapter);
  add("POST", "/v1/unload_lora_adapter", unload_adapter);
  add("POST", "/trace", trace);
  add("GET", "/training/runs", list_runs);
  add("GET", "/training/runs/*", show_run);
  add("GET", "/training/reports/*", show_run_report);
  add_pages(router_, options_.has_chat);
  router_.add(
      {.method = "GET", .path = "/health", .open = true, .run = [this](const auto& call) { health(*call); }});
  router_.add({.method = "GET", .path = "/metrics", .run = [this](const auto& call) {
                 const int64_t connections = options_.connections ? options_.connections() : 0;
                 call->send({.body = metrics_.page(models_, connections),
                             .content_type = "text/plain; version=0.0.4; charset=utf-8"});
               }});
  router_.add({.method = "GET", .path = "/openapi.json", .open = true, .run = [](const auto& call) {
                 call->send({.body = gpt::detail::serve_page_script()});
               }});
}

void Api::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  ++in_flight_;
  const auto call = std::make_shared<Call>(std::move(request), std::move(responder),
                                           [this](const CallRecord& record) { end_call(record); });
  call->watch();
  run_for(call, [&] { route(call); });
}

void Api::route(const std::shared_ptr<Call>& call) {
  const HttpRequest& request = call->request();
  if (!options_.hosts.empty()) check_host(request, options_.hosts);
  const Endpoint* endpoint = nullptr;
  try {
    endpoint = &router_.find(request.method, request.path());
  } catch (const ApiError& error) {
    HttpReply reply = error.reply();
    if (error.status() == 405) reply.headers.emplace_back("Allow", router_.allowed(request.path()));
    return call->send(std::move(reply));
  }
  call->set_endpoint(endpoint->path);
  guard(call, *endpoint);
  if (endpoint->prepares) return prepare(call, *endpoint);
  endpoint->run(call);
}

void Api::guard(const std::shared_ptr<Call>& call, const Endpoint& endpoint) {
  const HttpRequest& request = call->request();
  if (!endpoint.open && !options_.keys.empty()) {
    const auto key = options_.keys.find(request.header("Authorization"));
    if (!key)
      throw ApiError(401, "expected the header \"Authorization: Bearer KEY\" with an API key of this server",
                     {}, "invalid_api_key");
    call->client = *key + 1;
  }
  if (!endpoint.prepares) return;
  check_rate(*call);
  check_content_type(request);
  if (draining_) throw ApiError(503, "the server is shutting down", {}, "shutting_down");
  if (options_.log_bodies && options_.log) log_body(request);
}

void Api::check_rate(const Call& call) {
  const std::string& peer = call.request().peer;
  const std::string address = peer.substr(0, peer.rfind(':'));
  const double wait = rate_.take(options_.keys.empty() ? address : std::to_string(call.client), Clock::now());
  if (wait == 0) return;
  const auto seconds = static_cast<int64_t>(std::ceil(wait));
  throw ApiError(
      429, fmt::format("more than {} requests per minute; try again in {} s", options_.per_minute, seconds),
      {}, "rate_limit_exceeded", seconds);
}

void Api::prepare(const std::shared_ptr<Call>& call, const Endpoint& endpoint) {
  if (!run_later(endpoint.loads ? loading_ : preparing_, call, [call, &endpoint] { endpoint.run(call); }))
    throw ApiError(503, "the server is reading too many requests; try again in a moment");
}

void Api::health(Call& call) const {
  if (draining_) return call.send({.status = 503, .body = "{\"status\":\"draining\"}"});
  call.send({.body = "{\"status\":\"ok\"}"});
}

void Api::log_body(const HttpRequest& request) const {
  std::string line =
      fmt::format("{{\"time\":{},\"peer\":\"{}\",\"request\":", std::time(nullptr), request.peer);
  append_json(line, replace_invalid_utf8(request.body));
  options_.log(line + "}");
}

void Api::end_call(const CallRecord& record) {
  metrics_.count_request(record.endpoint.empty() ? "none" : record.endpoint, record.status);
  metrics_.request_time.add(record.seconds);
  if (options_.log) options_.log(log_line(record));
  --in_flight_;
}

}  // namespace gpt::serve

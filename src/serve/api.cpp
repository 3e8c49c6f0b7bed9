#include "serve/api.h"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "serve/api_error.h"

namespace gpt::serve {
namespace {

// Maximum number of queued requests for each thread.
constexpr size_t kMostPreparing = 1024, kMostCompiling = 256, kMostLoading = 16, kMostTracing = 8,
                 kMostWatching = 64;

std::string line_of(const nlohmann::ordered_json& record) {
  return record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string log_line(const CallRecord& r) {
  nlohmann::ordered_json line = {{"time", std::time(nullptr)},
                                 {"id", r.id},
                                 {"peer", r.peer},
                                 {"method", printable_text(r.method, 16)},
                                 {"path", printable_text(r.path, 128)},
                                 {"status", r.status},
                                 {"seconds", std::round(r.seconds * 1e4) / 1e4}};
  if (!r.model.empty()) line["model"] = r.model;
  if (r.usage.prompt > 0) {
    line["prompt_tokens"] = r.usage.prompt;
    line["completion_tokens"] = r.usage.completion;
    line["cached_tokens"] = r.usage.cached;
  }
  if (!r.warnings.empty()) line["warnings"] = r.warnings;
  if (!r.traceparent.empty()) line["traceparent"] = r.traceparent;
  return line_of(line);
}

}  // namespace

Api::Api(ModelSet& models, ApiOptions options)
    : models_(models),
      options_(std::move(options)),
      runs_(models_, options_.runs),
      service_{models_,    options_.limits, metrics_,  salts_,    options_.folder,      runs_,
               compiling_, tracing_,        watching_, draining_, options_.connections, options_.has_chat},
      rate_(options_.per_minute),
      compiling_(kMostCompiling),
      tracing_(kMostTracing),
      watching_(kMostWatching),
      loading_(kMostLoading),
      preparing_(kMostPreparing) {
  for (const Endpoint& endpoint : endpoint_table())
    router_.add(endpoint);
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
  if (endpoint->runs == Runs::on_server) return endpoint->run(service_, call);
  run_later_for(call, *endpoint);
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
  if (!endpoint.has_body()) return;
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

void Api::run_later_for(const std::shared_ptr<Call>& call, const Endpoint& endpoint) {
  const bool watches = endpoint.runs == Runs::on_watching;
  WorkThread& thread = watches ? watching_ : endpoint.runs == Runs::on_loading ? loading_ : preparing_;
  if (run_later(thread, call, [this, call, &endpoint] { endpoint.run(service_, call); })) return;
  throw ApiError(503, watches ? "too many pending requests for runs; try again in a moment"
                              : "the server is reading too many requests; try again in a moment");
}

void Api::log_body(const HttpRequest& request) const {
  options_.log(line_of({{"time", std::time(nullptr)},
                        {"peer", request.peer},
                        {"request", replace_invalid_utf8(request.body)}}));
}

void Api::end_call(const CallRecord& record) {
  metrics_.count_request(record.endpoint.empty() ? "none" : record.endpoint, record.status);
  metrics_.request_time.add(record.seconds);
  if (options_.log) options_.log(log_line(record));
  --in_flight_;
}

}  // namespace gpt::serve

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/endpoints.h"
#include "serve/guard.h"
#include "serve/rate_limit.h"
#include "serve/router.h"
#include "serve/work_thread.h"

namespace gpt::serve {

struct ApiOptions {
  RequestLimits limits = {};
  KeyRing keys{{}};
  std::vector<std::string> hosts = {};  // that a request's Host may name; none: any
  ModelFolder folder = {};
  int64_t per_minute = 0;                                 // requests of a key, or without keys of an address
  bool log_bodies = false;                                // requests with their text
  std::function<void(const std::string& line)> log = {};  // takes JSON lines, on any thread
  std::function<int64_t()> connections = {};              // for the metrics
  std::vector<WatchedRun> runs = {};                      // shown beside the models that are runs
  bool has_chat = true;                                   // false: there is never a model, only runs
};

// Everything behind HTTP: guards every request, finds its endpoint and runs it, counts and logs it. What
// takes a while, reading and tokenizing a body, happens on a thread of its own.
class Api {
 public:
  // Refers to the models, which outlive it.
  Api(ModelSet& models, ApiOptions options);

  // Answers a request. Called on the server's thread; does not block.
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);

  // From now on new work gets 503, as GET /health says. Any thread.
  void drain() { draining_ = true; }
  int64_t in_flight() const { return in_flight_; }  // calls without a complete answer
  const Router& router() const { return router_; }

 private:
  void add_endpoints();
  void route(const std::shared_ptr<Call>& call);
  void guard(const std::shared_ptr<Call>& call, const Endpoint& endpoint);
  void check_rate(const Call& call);
  void prepare(const std::shared_ptr<Call>& call, const Endpoint& endpoint);
  void health(Call& call) const;
  void end_call(const CallRecord& record);
  void log_body(const HttpRequest& request) const;

  ModelSet& models_;
  const ApiOptions options_;
  Metrics metrics_;
  PrefixSalts salts_;
  RunList runs_;
  Service service_;
  Router router_;
  RateLimit rate_;  // of the server's thread
  std::atomic<bool> draining_ = false;
  std::atomic<int64_t> in_flight_ = 0;
  // End first, and the last of them before the others.
  WorkThread compiling_, tracing_, watching_, loading_, preparing_;
};

}  // namespace gpt::serve

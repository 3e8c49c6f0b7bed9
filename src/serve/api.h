#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/http/guard.h"
#include "serve/openai/endpoints.h"
#include "serve/router.h"
#include "serve/work_thread.h"

namespace gpt::serve {

struct ApiOptions {
  RequestLimits limits = {};
  KeyRing keys{{}};
  std::vector<std::string> hosts = {};  // hosts that the Host header may name; empty: any
  ModelFolder folder = {};
  int64_t per_minute = 0;   // maximum requests per key, or per address without keys; 0: unlimited
  bool log_bodies = false;  // log the text of requests
  std::function<void(const std::string& line)> log = {};  // receives JSON lines, on any thread
  std::function<int64_t()> connections = {};              // returns the number of connections for the metrics
  std::vector<WatchedRun> runs = {};  // shown in addition to models that are training runs
  bool has_chat = true;               // false: the server has no models, only runs
};

// Implements the API on top of HTTP. Checks every request, runs its endpoint, and counts and logs it. Slow
// work, such as parsing and tokenizing a body, runs on separate threads.
class Api {
 public:
  // Keeps a reference to the models, which must outlive the object.
  Api(ModelSet& models, ApiOptions options);

  // Handles a request. Called on the server thread; does not block.
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);

  // Rejects new work with status 503 from now on; GET /health then reports 503 too. Thread-safe.
  void drain() { draining_ = true; }
  int64_t in_flight() const { return in_flight_; }  // number of calls without a complete response
  const Router& router() const { return router_; }

 private:
  void route(const std::shared_ptr<Call>& call);
  void guard(const std::shared_ptr<Call>& call, const Endpoint& endpoint);
  void check_rate(const Call& call);
  void run_later_for(const std::shared_ptr<Call>& call, const Endpoint& endpoint);
  void end_call(const CallRecord& record);
  void log_body(const HttpRequest& request) const;

  ModelSet& models_;
  const ApiOptions options_;
  Metrics metrics_;
  PrefixSalts salts_;
  RunList runs_;
  Service service_;
  Router router_;
  RateLimit rate_;  // used only on the server thread
  std::atomic<bool> draining_ = false;
  std::atomic<int64_t> in_flight_ = 0;
  // These threads are declared last, so they end first, in reverse order.
  WorkThread compiling_, tracing_, watching_, loading_, preparing_;
};

}  // namespace gpt::serve

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "serve/http/http.h"
#include "serve/openai/answer_format.h"
#include "serve/work_thread.h"

namespace gpt::serve {

// The data about a finished call, for the log and the metrics.
struct CallRecord {
  std::string endpoint, id, traceparent, peer, method, path;
  std::string model;  // name of the model in the response; "": none
  int status = 0;     // 499: the client disconnected first
  double seconds = 0;
  Usage usage;
  std::vector<std::string> warnings;  // warnings about probable mistakes in the request
};

// A client's call: the request and the Responder for its response. The call observes the response, so that
// every call is counted and logged exactly once.
class Call : public Responder, public std::enable_shared_from_this<Call> {
 public:
  Call(HttpRequest request, std::shared_ptr<Responder> responder,
       std::function<void(const CallRecord&)> on_over);
  ~Call() override;  // sends status 500 if there was no response
  void watch();      // must be called once, after a shared_ptr owns the call

  const HttpRequest& request() const { return request_; }
  HttpRequest release_request() { return std::move(request_); }
  bool closed() const { return over_; }
  size_t client = 0;  // number of the client's key, counted from 1; 0: no key
  void set_endpoint(const std::string& name) { record_.endpoint = name; }
  void set_model(const std::string& name);
  void set_usage(const Usage& usage);
  void add_header(const std::string& name, const std::string& value);  // adds a header to the response
  void add_warning(const std::string& text);  // ignores a warning that the record already contains

  void send(HttpReply reply) override;
  void begin_stream(HttpReply head) override;
  void write(std::string_view piece) override { responder_->write(piece); }
  void end() override;
  void on_closed(std::function<void()> then) override;

 private:
  void add_headers(HttpReply& reply);
  void end_with(int status);
  void close();

  HttpRequest request_;
  std::shared_ptr<Responder> responder_;
  std::function<void(const CallRecord&)> on_over_;
  Clock::time_point begun_ = Clock::now();
  std::mutex mutex_;
  CallRecord record_;
  HttpHeaders headers_;
  int stream_status_ = 0;
  std::function<void()> on_closed_;
  bool gone_ = false;
  std::atomic<bool> over_ = false;
};

// Runs a function for a call. If the function throws, the exception is sent as the response (see
// current_error, which receives `param`).
void run_for(const std::shared_ptr<Call>& call, const std::function<void()>& run,
             const std::string& param = {});
// Queues a function for a call on a thread. The function is skipped if the client has disconnected by then.
// Returns false if the queue is full.
[[nodiscard]] bool run_later(WorkThread& thread, const std::shared_ptr<Call>& call, std::function<void()> run,
                             const std::string& param = {});

}  // namespace gpt::serve

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "serve/answer_format.h"
#include "serve/http.h"
#include "serve/work_thread.h"

namespace gpt::serve {

// What is known of a call when it is over.
struct CallRecord {
  std::string endpoint, id, traceparent, peer, method, path;
  std::string model;  // as its answer names it; "": of none
  int status = 0;     // 499: the client went away first
  double seconds = 0;
  Usage usage;
  std::vector<std::string> warnings;  // what is probably not meant in the request
};

// A client's call: the request, and the way of its answer, which is watched so that every call is counted and
// logged once.
class Call : public Responder, public std::enable_shared_from_this<Call> {
 public:
  Call(HttpRequest request, std::shared_ptr<Responder> responder,
       std::function<void(const CallRecord&)> on_over);
  ~Call() override;  // a call that nobody answered gets 500
  void watch();      // once, when it is owned by a shared_ptr

  const HttpRequest& request() const { return request_; }
  HttpRequest release_request() { return std::move(request_); }
  bool closed() const { return over_; }
  size_t client = 0;  // one for each key; 0: without one
  void set_endpoint(const std::string& name) { record_.endpoint = name; }
  void set_model(const std::string& name);
  void set_usage(const Usage& usage);
  void add_header(const std::string& name, const std::string& value);  // of the answer
  void add_warning(const std::string& text);  // one that the record has already is not added again

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

// Does something for a call; what it throws is the call's answer (current_error, naming `param`).
void run_for(const std::shared_ptr<Call>& call, const std::function<void()>& run,
             const std::string& param = {});
// The same later, on a thread, unless the client is gone by then. False where too many wait there.
[[nodiscard]] bool run_later(WorkThread& thread, const std::shared_ptr<Call>& call, std::function<void()> run,
                             const std::string& param = {});

}  // namespace gpt::serve

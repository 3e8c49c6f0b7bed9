#include "serve/call.h"

#include <algorithm>

#include "serve/api_error.h"

namespace gpt::serve {
namespace {

constexpr int kClientGone = 499;

// Checks for the format of W3C Trace Context: a version, 32 hex digits, 16 hex digits and flags, separated by
// "-".
bool is_traceparent(const std::string& text) {
  constexpr std::string_view kForm = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  if (text.size() != kForm.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (kForm[i] == 'x' ? !hex : c != '-') return false;
  }
  return true;
}

}  // namespace

Call::Call(HttpRequest request, std::shared_ptr<Responder> responder,
           std::function<void(const CallRecord&)> on_over)
    : request_(std::move(request)), responder_(std::move(responder)), on_over_(std::move(on_over)) {
  record_ = {.id = new_id("req-"), .peer = request_.peer, .method = request_.method};
  record_.path = request_.path();
  const std::string* trace = request_.header("traceparent");
  if (trace != nullptr && is_traceparent(*trace)) record_.traceparent = *trace;
}

Call::~Call() {
  if (over_) return;
  try {
    responder_->send(ApiError(500, "the request ended without a response", {}, "internal_error").reply());
    end_with(500);
  } catch (const std::exception&) {  // out of memory: the client only sees that the connection closes
  }
}

void Call::watch() {
  responder_->on_closed([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
}

void Call::set_model(const std::string& name) {
  const std::lock_guard lock(mutex_);
  record_.model = name;
}

void Call::set_usage(const Usage& usage) {
  const std::lock_guard lock(mutex_);
  record_.usage = usage;
}

void Call::add_warning(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(record_.warnings, text) == record_.warnings.end()) record_.warnings.push_back(text);
}

void Call::add_header(const std::string& name, const std::string& value) {
  const std::lock_guard lock(mutex_);
  headers_.emplace_back(name, value);
}

void Call::add_headers(HttpReply& reply) {
  const std::lock_guard lock(mutex_);
  reply.headers.insert(reply.headers.end(), headers_.begin(), headers_.end());
  reply.headers.emplace_back("X-Request-Id", record_.id);
  if (!record_.traceparent.empty()) reply.headers.emplace_back("traceparent", record_.traceparent);
}

// Counts the call before the response is sent, so that a client with a response always finds its call
// counted.
void Call::send(HttpReply reply) {
  if (reply.body.size() > responder_->most_bytes())
    reply = ApiError(400,
                     fmt::format("the response has {} bytes, but this server buffers at most {} per "
                                 "connection (`max_unsent`); request less, or stream",
                                 reply.body.size(), responder_->most_bytes()),
                     {}, "response_too_large")
                .reply();
  add_headers(reply);
  end_with(reply.status);
  responder_->send(std::move(reply));
}

void Call::begin_stream(HttpReply head) {
  add_headers(head);
  stream_status_ = head.status;
  responder_->begin_stream(std::move(head));
}

void Call::end() {
  end_with(stream_status_);
  responder_->end();
}

void Call::end_with(int status) {
  if (over_.exchange(true)) return;
  CallRecord record;
  {
    const std::lock_guard lock(mutex_);
    record = record_;
    on_closed_ = nullptr;
  }
  record.status = status;
  record.seconds = seconds_since(begun_);
  on_over_(record);
}

void Call::on_closed(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (!over_) on_closed_ = std::move(then);
      return;
    }
  }
  then();
}

void Call::close() {
  std::function<void()> then;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    then = std::exchange(on_closed_, nullptr);
  }
  end_with(kClientGone);
  if (then) then();
}

void run_for(const std::shared_ptr<Call>& call, const std::function<void()>& run, const std::string& param) {
  try {
    run();
  } catch (...) {
    call->send(current_error(param).reply());
  }
}

bool run_later(WorkThread& thread, const std::shared_ptr<Call>& call, std::function<void()> run,
               const std::string& param) {
  return thread.add([call, run = std::move(run), param] {
    if (!call->closed()) run_for(call, run, param);
  });
}

}  // namespace gpt::serve

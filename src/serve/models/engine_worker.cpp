#include "serve/models/engine_worker.h"

#include <algorithm>
#include <future>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

ApiError shutting_down() {
  return ApiError(503, "the server is shutting down", {}, "shutting_down");
}

}  // namespace

EngineWorker::EngineWorker(SequenceModel& model, const Options& options)
    : model_(model),
      options_(options),
      engine_(model, {.step_rows = options.step_rows, .speculation = options.speculation}),
      pace_(options.step_rows) {
  publish();
  thread_ = start_thread("the engine", [this] { loop(); });
}

EngineWorker::~EngineWorker() {
  stop();
}

// -------------------------------------------------------------------------------------------------------
// Functions for any thread.

int64_t EngineWorker::submit(Job job) {
  const int64_t n = std::ssize(job.requests);
  GPT_ASSERT(n > 0 && job.sink != nullptr);
  const std::lock_guard lock(mutex_);
  if (stopped_) throw shutting_down();
  if (n > std::min(options_.max_waiting, options_.max_of_client))
    throw ApiError(
        400, fmt::format("the request needs {} sequences, but this server queues at most {} at the same time",
                         n, std::min(options_.max_waiting, options_.max_of_client)));
  require_places(job.client, n);
  take_places(job.client, n);
  mail_.jobs.emplace_back(submitted_, std::move(job));
  wake_.notify_one();
  return submitted_++;
}

void EngineWorker::cancel(int64_t job) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  mail_.cancelled.push_back(job);
  wake_.notify_one();
}

// Throws if the queue has no room for n sequences or side tasks. The caller must hold the lock.
void EngineWorker::require_places(size_t client, int64_t n) {
  if (waiting_ + n > options_.max_waiting || waiting_of_[client] + n > options_.max_of_client)
    throw ApiError(429, "the request queue is full; try again in a moment", {}, "rate_limit_exceeded");
}

void EngineWorker::take_places(size_t client, int64_t n) {
  waiting_ += n;
  waiting_of_[client] += n;
}

void EngineWorker::free_places(size_t client, int64_t n) {
  const std::lock_guard lock(mutex_);
  waiting_ -= n;
  waiting_of_[client] -= n;
}

void EngineWorker::submit_side(std::shared_ptr<SideTask> task, size_t client) {
  const std::lock_guard lock(mutex_);
  if (stopped_) throw shutting_down();
  if (std::this_thread::get_id() != thread_.get_id()) require_places(client, 1);
  take_places(client, 1);
  mail_.tasks.push_back({client, std::move(task)});
  wake_.notify_one();
}

namespace {

class CallTask : public SideTask {
 public:
  explicit CallTask(std::function<void()> f) : f_(std::move(f)) {}
  std::future<void> result() { return done_.get_future(); }
  bool run(int64_t) override {
    f_();
    done_.set_value();
    return true;
  }
  void fail(const std::exception& error) override {
    done_.set_exception(std::make_exception_ptr(Error(error.what())));
  }

 private:
  std::function<void()> f_;
  std::promise<void> done_;
};

}  // namespace

void EngineWorker::call(std::function<void()> f) {
  const auto task = std::make_shared<CallTask>(std::move(f));
  std::future<void> result = task->result();
  submit_side(task);
  result.get();
}

void EngineWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

EngineWorker::Facts EngineWorker::facts() const {
  const std::lock_guard lock(mutex_);
  Facts facts = facts_;
  facts.waiting += waiting_;
  return facts;
}

// -------------------------------------------------------------------------------------------------------
// Functions of the worker thread.

void EngineWorker::loop() {
  while (receive()) {
    try {
      hand_over();
      step();
    } catch (const std::exception& error) {  // for example out of memory; the worker continues with new jobs
      fail_all(error);
    }
    run_side_task();
    publish();
  }
  receive();  // receives the jobs that were submitted last
  fail_all(shutting_down());
}

// Receives new jobs, tasks and cancellations. Waits for them if the worker is idle. Returns false after
// `stop`.
bool EngineWorker::receive() {
  Mail mail;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stopped_ || !mail_.empty() || !idle(); });
    std::swap(mail, mail_);
  }
  for (auto& [id, job] : mail.jobs) {
    const size_t n = job.requests.size(), client = job.client;
    jobs_.emplace(id, Active{.job = std::move(job), .ids = std::vector<int64_t>(n, -1), .left = n});
    queues_[client].push_back(id);
  }
  for (auto& task : mail.tasks)
    tasks_.push_back(std::move(task));
  for (const int64_t job : mail.cancelled)
    drop(job);
  const std::lock_guard lock(mutex_);
  return !stopped_;
}

void EngineWorker::drop(int64_t id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Active& active = found->second;
  for (const int64_t sequence : active.ids) {
    if (sequence < 0) continue;
    engine_.cancel(sequence);
    sequences_.erase(sequence);
  }
  const size_t client = active.job.client;
  const auto unstarted = static_cast<int64_t>(active.job.requests.size() - active.next);
  if (unstarted > 0) {
    std::erase(queues_[client], id);
    if (queues_[client].empty()) queues_.erase(client);
    free_places(client, unstarted);
  }
  jobs_.erase(found);
}

// Submits as many sequences to the engine as it has slots. A sequence that waits inside the engine only waits
// for memory or for a prompt with the same prefix.
void EngineWorker::hand_over() {
  while (!queues_.empty() && engine_.running() + engine_.waiting() < model_.slots())
    start_next();
}

// Starts the next sequence of the client whose turn it is.
void EngineWorker::start_next() {
  auto queue = queues_.upper_bound(last_client_);
  if (queue == queues_.end()) queue = queues_.begin();
  const size_t client = last_client_ = queue->first;
  const int64_t id = queue->second.front();
  Active& active = jobs_.at(id);
  const size_t number = active.next++;
  if (active.next == active.job.requests.size()) queue->second.pop_front();
  if (queue->second.empty()) queues_.erase(queue);
  free_places(client, 1);
  try {
    const int64_t sequence = engine_.submit(std::move(active.job.requests[number]));
    active.ids[number] = sequence;
    sequences_.emplace(sequence, std::pair(id, number));
  } catch (const std::exception& error) {
    const std::shared_ptr<TokenSink> sink = active.job.sink;
    drop(id);
    sink->fail(error);
  }
}

// Runs one forward call and delivers all tokens that result from it.
void EngineWorker::step() {
  if (engine_.idle()) return;
  const auto begin = Clock::now();
  engine_.limit_prompts(pace_.rows());
  do {
    for (const Event& event : engine_.step())
      deliver(event);
    end_step();
  } while (engine_.draws_more());
  const Engine::Work& work = engine_.last_work();
  pace_.note({work.generating, work.prompt_rows, work.prompts, seconds_since(begin)});
}

void EngineWorker::deliver(const Event& event) {
  const auto found = sequences_.find(event.request);
  if (found == sequences_.end()) return;  // its job was dropped in this step
  const auto [id, number] = found->second;
  Active& active = jobs_.at(id);
  const bool goes_on = active.job.sink->take(number, event);
  if (!active.touched) touched_.push_back(id);
  active.touched = true;
  if (goes_on && !event.finish) return;
  if (!event.finish) engine_.cancel(event.request);
  sequences_.erase(found);
  active.ids[number] = -1;
  --active.left;
}

void EngineWorker::end_step() {
  for (const int64_t id : touched_) {
    Active& active = jobs_.at(id);
    active.touched = false;
    const bool all_ended = active.left == 0;
    active.job.sink->end_step(all_ended);
    if (all_ended) jobs_.erase(id);
  }
  touched_.clear();
}

void EngineWorker::run_side_task() {
  if (tasks_.empty()) return;
  const auto [client, task] = tasks_.front();
  bool done = true;
  try {
    done = task->run(engine_.idle() ? options_.step_rows : options_.busy_side_rows);
  } catch (const std::exception& error) {
    task->fail(error);
  }
  if (!done) return;
  tasks_.pop_front();
  free_places(client, 1);
}

void EngineWorker::fail_all(const std::exception& error) {
  touched_.clear();
  while (!jobs_.empty()) {
    const int64_t id = jobs_.begin()->first;
    const std::shared_ptr<TokenSink> sink = jobs_.begin()->second.job.sink;
    drop(id);
    sink->fail(error);
  }
  for (const auto& [client, task] : tasks_) {
    task->fail(error);
    free_places(client, 1);
  }
  tasks_.clear();
}

void EngineWorker::publish() {
  const std::lock_guard lock(mutex_);
  facts_ = {.running = engine_.running(),
            .waiting = engine_.waiting(),
            .counts = engine_.counts(),
            .available_blocks = model_.available_blocks()};
}

}  // namespace gpt::serve

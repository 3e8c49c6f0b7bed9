#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "infer/engine.h"
#include "serve/prompt_pace.h"

namespace gpt::serve {

// Takes what the sequences of a job become. Called on the worker's thread alone.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // A new token of sequence i, counted from 0; whether the sequence goes on. The event lives as long as the
  // call.
  virtual bool take(size_t sequence, const Event& event) = 0;
  // A step brought something for the job and is over; or all its sequences have ended: no more calls.
  virtual void end_step(bool all_ended) = 0;
  // The job ends here because something went wrong, as the server shuts down: no more calls.
  virtual void fail(const std::exception& error) = 0;
};

// One client's request: sequences whose tokens go to one place.
struct Job {
  size_t client = 0;  // whose turn it is: clients take turns, sequence by sequence
  std::vector<Request> requests;
  std::shared_ptr<TokenSink> sink;
};

// Work between the engine's steps, a part at a time: a prompt to be scored or embedded.
class SideTask {
 public:
  virtual ~SideTask() = default;
  // Does a part of about so many rows; whether it was the last one. On the worker's thread. What it throws
  // ends the task with `fail`.
  virtual bool run(int64_t rows) = 0;
  virtual void fail(const std::exception& error) = 0;
};

// An engine and the thread that it belongs to. Requests wait in front of it, in a queue for each client, and
// are handed over in turn when it can start them, so that no client keeps the others waiting. All functions
// may be called by any thread.
class EngineWorker {
 public:
  struct Options {
    int64_t step_rows = 256;
    int64_t max_waiting = 256;     // sequences and side tasks of all clients that wait to be started
    int64_t max_of_client = 256;   // and of one
    int64_t busy_side_rows = 128;  // of a part of a side task while sequences are running
    Speculation speculation = {};
  };
  // Refers to the model, which outlives it.
  EngineWorker(SequenceModel& model, const Options& options);
  ~EngineWorker();  // as stop
  EngineWorker(const EngineWorker&) = delete;
  EngineWorker& operator=(const EngineWorker&) = delete;

  // Queues a job; what it returns names it. Throws ApiError: 429 where too many wait, 400 where the job alone
  // is too many, 503 after `stop`. The requests are valid ones of the engine's.
  int64_t submit(Job job);
  // Ends a job before the next step, without further calls of its sink.
  void cancel(int64_t job);
  // Queues a side task of a client's; side tasks run one after another, in turn with steps. Throws as submit,
  // but a running task may always queue another.
  void submit_side(std::shared_ptr<SideTask> task, size_t client = 0);
  // Calls f between steps, on the worker's thread, and waits until it is done. Throws what f throws, and as
  // submit; not on the worker's thread.
  void call(std::function<void()> f);
  // Ends everything: what has not ended fails with the reason (503).
  void stop();

  struct Facts {
    int64_t running = 0, waiting = 0;  // sequences; side tasks wait
    Engine::Counts counts;
    int64_t available_blocks = 0;
  };
  Facts facts() const;  // of the last step

 private:
  struct Active {
    Job job;
    std::vector<int64_t> ids;  // of the engine; -1: not started, or ended
    size_t next = 0;           // the first sequence that was not started
    size_t left = 0;           // sequences that have not ended
    bool touched = false;
  };
  struct ClientTask {
    size_t client;
    std::shared_ptr<SideTask> task;
  };
  struct Mail {
    std::vector<std::pair<int64_t, Job>> jobs;
    std::vector<int64_t> cancelled;
    std::vector<ClientTask> tasks;
    bool empty() const { return jobs.empty() && cancelled.empty() && tasks.empty(); }
  };
  void require_places(size_t client, int64_t n);
  void take_places(size_t client, int64_t n);
  void free_places(size_t client, int64_t n);
  void loop();
  bool receive();
  void drop(int64_t job);
  void hand_over();
  void start_next();
  void step();
  void deliver(const Event& event);
  void end_step();
  void run_side_task();
  void fail_all(const std::exception& error);
  void publish();
  bool idle() const { return engine_.idle() && queues_.empty() && tasks_.empty(); }

  SequenceModel& model_;
  const Options options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Mail mail_;
  bool stopped_ = false;
  int64_t submitted_ = 0;
  int64_t waiting_ = 0;                   // sequences not yet started, and side tasks
  std::map<size_t, int64_t> waiting_of_;  // by client
  Facts facts_;

  // Of the worker's thread.
  Engine engine_;
  PromptPace pace_;
  std::map<int64_t, Active> jobs_;
  std::map<size_t, std::deque<int64_t>> queues_;  // jobs with sequences to start, by client
  size_t last_client_ = 0;
  std::map<int64_t, std::pair<int64_t, size_t>> sequences_;  // job and number by the engine's id
  std::vector<int64_t> touched_;
  std::deque<ClientTask> tasks_;
  std::thread thread_;
};

}  // namespace gpt::serve

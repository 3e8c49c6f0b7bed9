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
#include "serve/models/prompt_pace.h"

namespace gpt::serve {

// Receives the tokens of a job's sequences. All functions are called on the worker thread.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Receives a new token of a sequence (counted from 0). Returns true if the sequence should continue. The
  // event is only valid during the call.
  virtual bool take(size_t sequence, const Event& event) = 0;
  // Called at the end of a step that produced tokens for the job. If `all_ended` is true, all sequences of
  // the job have ended and no further calls follow.
  virtual void end_step(bool all_ended) = 0;
  // Called if the job fails, for example because the server shuts down. No further calls follow.
  virtual void fail(const std::exception& error) = 0;
};

// A client's request: sequences whose tokens are passed to one sink.
struct Job {
  size_t client = 0;  // number of the client; clients take turns to start a sequence
  std::vector<Request> requests;
  std::shared_ptr<TokenSink> sink;
};

// Work that is done in parts between the engine's steps, such as scoring or embedding a prompt.
class SideTask {
 public:
  virtual ~SideTask() = default;
  // Processes a part of about `rows` rows. Returns true if it was the last part. Called on the worker thread.
  // An exception from this function ends the task with a call of `fail`.
  virtual bool run(int64_t rows) = 0;
  virtual void fail(const std::exception& error) = 0;
};

// Runs an engine on its own thread. Requests are queued per client, and clients take turns to start a
// sequence, so that no client can delay the others. All functions are thread-safe.
class EngineWorker {
 public:
  struct Options {
    int64_t step_rows = 256;
    int64_t max_waiting = 256;     // maximum queued sequences and side tasks of all clients
    int64_t max_of_client = 256;   // maximum queued sequences and side tasks of a single client
    int64_t busy_side_rows = 128;  // rows per part of a side task while sequences are running
    Speculation speculation = {};
  };
  // Keeps a reference to the model, which must outlive the object.
  EngineWorker(SequenceModel& model, const Options& options);
  ~EngineWorker();  // calls `stop`
  EngineWorker(const EngineWorker&) = delete;
  EngineWorker& operator=(const EngineWorker&) = delete;

  // Queues a job and returns its number. Throws ApiError: 429 if the queue is full, 400 if the job has more
  // sequences than the queue can hold, 503 after `stop`. The requests must be valid for the engine.
  int64_t submit(Job job);
  // Ends a job before the next step. The sink of the job is not called again.
  void cancel(int64_t job);
  // Queues a side task of a client. Side tasks run one after another, in turn with the engine's steps. Throws
  // like `submit`, but a running task may always queue another task.
  void submit_side(std::shared_ptr<SideTask> task, size_t client = 0);
  // Calls f on the worker thread between two steps and waits until f returns. An exception from f is rethrown
  // as Error. Throws like `submit` if the queue is full. Must not be called on the worker thread.
  void call(std::function<void()> f);
  // Stops the worker. Unfinished jobs and side tasks fail with ApiError (503).
  void stop();

  struct Facts {
    int64_t running = 0, waiting = 0;  // number of sequences; side tasks count as waiting
    Engine::Counts counts;
    int64_t available_blocks = 0;
  };
  Facts facts() const;  // as of the last step

 private:
  struct Active {
    Job job;
    std::vector<int64_t> ids;  // ids in the engine; -1: not started, or ended
    size_t next = 0;           // first sequence that was not started
    size_t left = 0;           // number of sequences that have not ended
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
  int64_t waiting_ = 0;                   // queued sequences and side tasks
  std::map<size_t, int64_t> waiting_of_;  // queued sequences and side tasks per client
  Facts facts_;

  // Used only on the worker thread.
  Engine engine_;
  PromptPace pace_;
  std::map<int64_t, Active> jobs_;
  std::map<size_t, std::deque<int64_t>> queues_;  // jobs with sequences to start, by client
  size_t last_client_ = 0;
  std::map<int64_t, std::pair<int64_t, size_t>> sequences_;  // job and sequence number, by the engine's id
  std::vector<int64_t> touched_;
  std::deque<ClientTask> tasks_;
  std::thread thread_;
};

}  // namespace gpt::serve

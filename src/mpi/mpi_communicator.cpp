// gpt_mpi.so: the implementation of Communicator with MPI, for processes started by mpirun or srun. One
// thread per process makes all MPI calls. This thread transfers messages while the other threads compute, and
// monitors the heartbeats of the previous rank.

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "distributed/processes.h"

namespace gpt {
namespace {

// Message that on_alarm prints; a signal handler cannot receive arguments.
std::array<char, 256> overdue = {};

void on_alarm(int) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, overdue.data(), std::strlen(overdue.data()));
  ::_exit(1);
}

// Ends the program if the ranks take too long to start or to end. In these phases, no heartbeats are
// monitored.
class Deadline {
 public:
  Deadline(double seconds, const char* what) {
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    fmt::format_to_n(overdue.data(), overdue.size() - 1,
                     "gpt: rank {}: the ranks did not all {} within {:.0f} s (GPT_RANK_TIMEOUT): at least "
                     "one of them hangs\n",
                     rank == nullptr ? "?" : rank, what, seconds);
    std::signal(SIGALRM, on_alarm);
    ::alarm(static_cast<unsigned>(seconds));
  }
  ~Deadline() {
    ::alarm(0);
    std::signal(SIGALRM, SIG_DFL);
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
};

constexpr int kLifeTag = 1, kDataTag = 2;  // kLifeTag marks heartbeats; channel c uses the tag kDataTag + c
constexpr double kLifeEvery = 1;           // seconds between two heartbeats
// If the MPI thread did not run for this many seconds, this process itself was suspended.
constexpr double kOwnPause = 5;
constexpr auto kIdle = std::chrono::milliseconds(200);
// Durations of the pause between two tests for messages. kWaitedPause applies while a thread waits for
// messages. kPause is longer and applies while all threads compute, because each test takes time from the
// computation.
constexpr auto kWaitedPause = std::chrono::microseconds(50), kPause = std::chrono::microseconds(400);

// Describes an operation. The calling thread passes the job to the MPI thread. The MPI thread executes the
// job and sets `done`.
struct Job {
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  const char* what;
  int tag;
  Clock::time_point since = Clock::now();
  std::vector<MPI_Request> requests = {};
  std::vector<int> peers = {};  // source rank of each request; -1 for requests that send
  bool done = false;            // guarded by mutex_
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(const Timeouts& patience) : patience_(patience) {
    thread_ = start_thread_without_signals("messages between ranks", [this] { work(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_; });
    if (!problem_.empty()) {
      thread_.join();
      fail("{}", problem_);
    }
  }

  ~MpiCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host(int rank) const override { return hosts_[static_cast<size_t>(rank)]; }

  Handle exchange(std::span<const std::span<const std::byte>> send,
                  std::span<const std::span<std::byte>> receive, const char* what, Channel channel) override {
    auto job = std::make_shared<Job>(Job{.send = {send.begin(), send.end()},
                                         .receive = {receive.begin(), receive.end()},
                                         .what = what,
                                         .tag = kDataTag + static_cast<int>(channel)});
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(job);
    }
    changed_.notify_all();
    return std::make_unique<Wait>(*this, std::move(job));
  }

  [[noreturn]] void abort(int status) override {
    {
      const std::lock_guard lock(mutex_);
      abort_status_ = status;
    }
    changed_.notify_all();
    for (;;)
      ::pause();
  }

 private:
  class Wait : public Operation {
   public:
    Wait(MpiCommunicator& owner, std::shared_ptr<Job> job) : owner_(owner), job_(std::move(job)) {}
    ~Wait() override { wait(); }  // the operation uses the caller's memory until it has ended
    bool has_ended() override {
      const std::lock_guard lock(owner_.mutex_);
      return job_->done;
    }
    void wait() override {
      std::unique_lock lock(owner_.mutex_);
      if (job_->done) return;
      ++owner_.waiting_;
      owner_.changed_.notify_all();
      owner_.changed_.wait(lock, [this] { return job_->done; });
      --owner_.waiting_;
    }

   private:
    MpiCommunicator& owner_;
    std::shared_ptr<Job> job_;
  };

  // The functions below run on the MPI thread (thread_).

  void work() {
    open();
    {
      const std::lock_guard lock(mutex_);
      ready_ = true;
    }
    changed_.notify_all();
    if (!problem_.empty()) return;
    start_life();
    while (take_jobs()) {
      const bool moved = test_jobs();
      watch();
      if (!moved && !active_.empty()) pause();
    }
    const Deadline deadline(std::clamp(patience_.silence, 30.0, 1e6),
                            "end");  // every rank reaches this point before it ends
    end_life();
    MPI_Finalize();
  }

  void open() {
    const Deadline deadline(std::clamp(patience_.silence, 300.0, 1e6), "start");
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_FUNNELED) {
      problem_ = "MPI cannot be used from a separate thread: this MPI was built without thread support";
      return;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    std::vector<char> names(name.size() * static_cast<size_t>(size_));
    MPI_Allgather(name.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(), MPI_MAX_PROCESSOR_NAME,
                  MPI_CHAR, MPI_COMM_WORLD);
    for (int r = 0; r < size_; ++r)
      hosts_.emplace_back(names.data() + static_cast<size_t>(r) * name.size());
  }

  // Requires that mutex_ is locked.
  bool has_work() const { return !queue_.empty() || ends_ || abort_status_; }

  void pause() {
    std::unique_lock lock(mutex_);
    if (waiting_ == 0) {
      changed_.wait_for(lock, kPause, [this] { return has_work() || waiting_ > 0; });
    } else {
      lock.unlock();
      std::this_thread::sleep_for(kWaitedPause);
    }
  }

  // Moves queued jobs to active_ and starts them. Returns false when there is no more work to do.
  bool take_jobs() {
    std::unique_lock lock(mutex_);
    if (!has_work() && active_.empty()) changed_.wait_for(lock, kIdle, [this] { return has_work(); });
    if (abort_status_) {
      MPI_Abort(MPI_COMM_WORLD, *abort_status_);
      ::_exit(*abort_status_);
    }
    while (!queue_.empty()) {
      active_.push_back(std::move(queue_.front()));
      queue_.pop_front();
      start(*active_.back());
    }
    return !active_.empty() || !ends_;
  }

  // MPI delivers the messages between two ranks in the order in which the operations were started, so one tag
  // per channel is enough.
  void start(Job& job) {
    // Maximum bytes per message, because MPI counts have the type int.
    constexpr size_t kMost = size_t{1} << 30;
    const auto pieces = [&](auto bytes, int peer, bool sends, auto post) {
      for (size_t at = 0; at < bytes.size(); at += kMost) {
        MPI_Request& request = job.requests.emplace_back(MPI_REQUEST_NULL);
        job.peers.push_back(sends ? -1 : peer);
        post(bytes.data() + at, static_cast<int>(std::min(kMost, bytes.size() - at)), request);
      }
    };
    for (int step = 1; step < size_; ++step) {
      const int from = (rank_ + size_ - step) % size_;
      pieces(job.receive[static_cast<size_t>(from)], from, false,
             [&](std::byte* data, int n, MPI_Request& request) {
               MPI_Irecv(data, n, MPI_BYTE, from, job.tag, MPI_COMM_WORLD, &request);
             });
    }
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      pieces(job.send[static_cast<size_t>(to)], to, true,
             [&](const std::byte* data, int n, MPI_Request& request) {
               MPI_Isend(data, n, MPI_BYTE, to, job.tag, MPI_COMM_WORLD, &request);
             });
    }
  }

  // Tests the active jobs, and returns true if any job has ended. On each channel, the function only tests
  // the jobs up to the first unfinished job, because each test of an unfinished job makes MPI transfer
  // messages, which costs system calls.
  bool test_jobs() {
    bool any_done = false;
    std::array<bool, kChannels> waits = {};
    for (const std::shared_ptr<Job>& job : active_) {
      bool& channel_waits = waits.at(static_cast<size_t>(job->tag - kDataTag));
      if (channel_waits) continue;
      int done = 0;
      MPI_Testall(static_cast<int>(job->requests.size()), job->requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done == 0) {
        if (seconds_since(job->since) > patience_.operation) end_for(*job);
        channel_waits = true;
        continue;
      }
      const std::lock_guard lock(mutex_);
      job->done = true;
      any_done = true;
    }
    if (!any_done) return false;
    std::erase_if(active_, [](const std::shared_ptr<Job>& job) { return job->done; });
    changed_.notify_all();
    return true;
  }

  // Each rank sends heartbeats to the next rank and receives heartbeats from the previous rank.
  void start_life() {
    heard_ = told_ = ran_ = Clock::now();
    if (size_ > 1) listen();
  }
  void listen() {
    MPI_Irecv(&heard_byte_, 1, MPI_BYTE, (rank_ + size_ - 1) % size_, kLifeTag, MPI_COMM_WORLD, &hears_);
  }
  void end_life() {
    if (size_ == 1) return;
    MPI_Cancel(&hears_);
    MPI_Request_free(&hears_);
    if (tells_ != MPI_REQUEST_NULL) MPI_Request_free(&tells_);
  }

  void watch() {
    if (size_ == 1) return;
    const double own_pause = seconds_since(ran_);
    ran_ = Clock::now();
    if (own_pause > kOwnPause) heard_ = ran_;
    int done = 0;
    MPI_Test(&hears_, &done, MPI_STATUS_IGNORE);
    if (done != 0) {
      heard_ = ran_;
      listen();
    } else if (seconds_since(heard_) > patience_.silence) {
      end_silent();
    }
    if (seconds_since(told_) < kLifeEvery) return;
    MPI_Test(&tells_, &done, MPI_STATUS_IGNORE);  // also succeeds for the null request
    if (done == 0) return;
    told_ = ran_;
    MPI_Isend(&told_byte_, 1, MPI_BYTE, (rank_ + 1) % size_, kLifeTag, MPI_COMM_WORLD, &tells_);
  }

  [[noreturn]] void end_silent() {
    const int before = (rank_ + size_ - 1) % size_;
    end(fmt::format(
        "rank {} on {} has sent no heartbeat for {:.0f} s (GPT_RANK_TIMEOUT); it was stopped, has died or "
        "has lost its network connection{}",
        before, host(before), seconds_since(heard_),
        active_.empty() ? std::string()
                        : fmt::format("; operation in flight on rank {}: {}", rank_, active_.front()->what)));
  }

  [[noreturn]] void end_for(const Job& job) {
    std::string missing;
    for (size_t i = 0; i < job.requests.size(); ++i) {
      const int peer = job.peers[i];
      if (job.requests[i] == MPI_REQUEST_NULL || peer < 0) continue;
      missing += fmt::format("{}rank {} on {}", missing.empty() ? "" : ", ", peer, host(peer));
    }
    end(fmt::format("{} did not finish within {:.0f} s (GPT_COLLECTIVE_TIMEOUT); still waiting for {}",
                    job.what, patience_.operation,
                    missing.empty() ? "other ranks to receive messages" : missing));
  }

  [[noreturn]] void end(const std::string& why) {
    const std::string line = fmt::format(
        "\ngpt: rank {} on {} ends the run: {}; gpt train --resume continues the run from its last "
        "checkpoint, if it saved one\n",
        rank_, host(rank_), why);
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
    MPI_Abort(MPI_COMM_WORLD, 1);
    ::_exit(1);
  }

  Timeouts patience_;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;
  std::string problem_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false, ends_ = false;  // mutex_ guards the fields from here to queue_
  int waiting_ = 0;
  std::optional<int> abort_status_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::vector<std::shared_ptr<Job>> active_;  // only used by the MPI thread

  MPI_Request hears_ = MPI_REQUEST_NULL, tells_ = MPI_REQUEST_NULL;
  std::byte heard_byte_ = {}, told_byte_ = {};
  Clock::time_point heard_, told_, ran_;
  std::thread thread_;
};

}  // namespace
}  // namespace gpt

extern "C" __attribute__((visibility("default"))) const char* gpt_mpi_build() {
  return GPT_MPI_BUILD;
}

// Throws Error if MPI cannot be started. The caller owns the returned object.
extern "C" __attribute__((visibility("default"))) gpt::Communicator* gpt_open_mpi(
    const gpt::Timeouts& patience) {
  return new gpt::MpiCommunicator(patience);
}

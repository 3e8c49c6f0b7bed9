#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpt {

// What the processes that train one model together say to each other: the rank r of R. All of them call the
// same operations of a channel in the same order; those of two channels may be called in any. One may still
// be under way when its function returns: the memory that it was given belongs to it until it has ended.
class Communicator {
 public:
  enum class Channel : uint8_t { main, second };
  static constexpr size_t kChannels = 2;
  class Operation {
   public:
    virtual ~Operation() = default;  // waits
    virtual bool has_ended() = 0;
    virtual void wait() = 0;
  };
  using Handle = std::unique_ptr<Operation>;  // null: it is done

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host(int rank) const = 0;  // its name, for messages

  // Sends send[r] to rank r and receives receive[r] from it, for every r but the own one, whose entries are
  // not looked at. Both sides know how long each message is; an empty one is not sent. In memory of the host.
  // what: a string literal that names the operation where it does not end.
  virtual Handle exchange(std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive, const char* what,
                          Channel channel) = 0;

  // Ends this process and all others, at once.
  [[noreturn]] virtual void abort(int status) = 0;
};

// A process by itself: every operation is done at once.
Communicator& single_process();

// Waits for an operation, whether it is done already or not.
inline void finish(const Communicator::Handle& handle) {
  if (handle) handle->wait();
}
inline bool has_ended(const Communicator::Handle& handle) {
  return !handle || handle->has_ended();
}

// In every process pieces[r] becomes what it is in rank r.
Communicator::Handle gather(Communicator& processes, std::span<const std::span<std::byte>> pieces,
                            const char* what, Communicator::Channel channel = Communicator::Channel::main);

// Those below wait.

// In every process x becomes what it is in rank 0.
void broadcast(Communicator& processes, std::span<std::byte> x, const char* what);
// The number of each rank, by rank.
std::vector<double> gather(Communicator& processes, double own, const char* what);
// The text of each rank, by rank.
std::vector<std::string> gather(Communicator& processes, const std::string& own, const char* what);
// What rank 0 says.
bool of_first(Communicator& processes, bool own, const char* what);
double of_first(Communicator& processes, double own, const char* what);
// Whether it is true in any process.
bool any(Communicator& processes, bool own, const char* what);
// Returns when every process has called it.
void barrier(Communicator& processes, const char* what);

// Threads of this process: as many as were asked for, else the CPUs that it may use, of which those of one
// machine share all where mpirun has not bound them.
int thread_count(int64_t asked, const Communicator& processes);

}  // namespace gpt

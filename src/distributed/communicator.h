#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpt {

// Interface for communication between the ranks of a distributed run. Each process has a rank r, and there
// are R ranks in total. All ranks must start the operations of a channel in the same order. Operations on
// different channels may be started in any order. The functions may return while their operation is still in
// flight. The caller must not use the memory of an operation until the operation has ended.
class Communicator {
 public:
  enum class Channel : uint8_t { main, second };
  static constexpr size_t kChannels = 2;
  class Operation {
   public:
    virtual ~Operation() = default;  // waits until the operation has ended
    virtual bool has_ended() = 0;
    virtual void wait() = 0;
  };
  using Handle = std::unique_ptr<Operation>;  // null: the operation has already ended

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host(int rank) const = 0;  // host name, for messages

  // For every other rank r, sends send[r] to rank r and receives receive[r] from rank r. The entries of this
  // process's own rank are ignored. Both sides must know the length of each message. Empty messages are not
  // sent. All memory must be host memory. `what` is a string literal that names the operation in timeout
  // messages.
  virtual Handle exchange(std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive, const char* what,
                          Channel channel) = 0;

  // Ends this process and all other ranks immediately.
  [[noreturn]] virtual void abort(int status) = 0;
};

// Returns the communicator of a program that runs as a single process. All operations of this communicator
// end immediately.
Communicator& single_process();

// Waits until an operation has ended. Returns immediately if it has already ended.
inline void finish(const Communicator::Handle& handle) {
  if (handle) handle->wait();
}
inline bool has_ended(const Communicator::Handle& handle) {
  return !handle || handle->has_ended();
}

// All-gathers the pieces: copies pieces[r] of rank r to pieces[r] of all ranks.
Communicator::Handle gather(Communicator& processes, std::span<const std::span<std::byte>> pieces,
                            const char* what, Communicator::Channel channel = Communicator::Channel::main);

// The functions below wait until their operation has ended.

// Copies x from rank 0 to all ranks.
void broadcast(Communicator& processes, std::span<std::byte> x, const char* what);
// Gathers a number from each rank. The result is indexed by rank and is the same on all ranks.
std::vector<double> gather(Communicator& processes, double own, const char* what);
// Gathers a text from each rank. The result is indexed by rank and is the same on all ranks.
std::vector<std::string> gather(Communicator& processes, const std::string& own, const char* what);
// Returns rank 0's value of `own` on all ranks.
bool of_first(Communicator& processes, bool own, const char* what);
double of_first(Communicator& processes, double own, const char* what);
// Returns true if `own` is true on any rank.
bool any(Communicator& processes, bool own, const char* what);
// Returns after all ranks have called it.
void barrier(Communicator& processes, const char* what);

// Returns the number of threads that this process should use. If `asked` is positive, the result is `asked`.
// Otherwise, it is the number of CPUs that the process may use. If several ranks run on a machine, they
// divide its CPUs evenly, unless mpirun has bound each rank to its own CPUs.
int thread_count(int64_t asked, const Communicator& processes);

}  // namespace gpt

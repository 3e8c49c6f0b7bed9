#include "distributed/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/thread_pool.h"

namespace gpt {
namespace {

class SingleProcess : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string host(int) const override { return "this machine"; }
  Handle exchange(std::span<const std::span<const std::byte>>, std::span<const std::span<std::byte>>,
                  const char*, Channel) override {
    return nullptr;
  }
  [[noreturn]] void abort(int status) override { ::_exit(status); }
};

std::span<std::byte> bytes_of(double& x) {
  return std::as_writable_bytes(std::span(&x, 1));
}

}  // namespace

Communicator& single_process() {
  static SingleProcess process;
  return process;
}

Communicator::Handle gather(Communicator& processes, std::span<const std::span<std::byte>> pieces,
                            const char* what, Communicator::Channel channel) {
  const std::vector<std::span<const std::byte>> send(pieces.size(),
                                                     pieces[static_cast<size_t>(processes.rank())]);
  return processes.exchange(send, pieces, what, channel);
}

void broadcast(Communicator& processes, std::span<std::byte> x, const char* what) {
  const auto n = static_cast<size_t>(processes.size());
  std::vector<std::span<const std::byte>> send(n);
  std::vector<std::span<std::byte>> receive(n);
  if (processes.rank() == 0)
    std::fill(send.begin(), send.end(), x);
  else
    receive[0] = x;
  finish(processes.exchange(send, receive, what, Communicator::Channel::main));
}

std::vector<double> gather(Communicator& processes, double own, const char* what) {
  std::vector<double> all(static_cast<size_t>(processes.size()), own);
  std::vector<std::span<std::byte>> pieces;
  pieces.reserve(all.size());
  for (double& x : all)
    pieces.push_back(bytes_of(x));
  finish(gather(processes, pieces, what));
  return all;
}

std::vector<std::string> gather(Communicator& processes, const std::string& own, const char* what) {
  const std::vector<double> sizes = gather(processes, static_cast<double>(own.size()), what);
  std::vector<std::string> all;
  all.reserve(sizes.size());
  for (const double size : sizes)
    all.emplace_back(static_cast<size_t>(size), ' ');
  all[static_cast<size_t>(processes.rank())] = own;
  std::vector<std::span<std::byte>> pieces;
  pieces.reserve(all.size());
  for (std::string& text : all)
    pieces.push_back(std::as_writable_bytes(std::span(text)));
  finish(gather(processes, pieces, what));
  return all;
}

bool of_first(Communicator& processes, bool own, const char* what) {
  return of_first(processes, own ? 1.0 : 0.0, what) == 1.0;
}

double of_first(Communicator& processes, double own, const char* what) {
  broadcast(processes, bytes_of(own), what);
  return own;
}

bool any(Communicator& processes, bool own, const char* what) {
  const std::vector<double> all = gather(processes, own ? 1.0 : 0.0, what);
  return std::find(all.begin(), all.end(), 1.0) != all.end();
}

void barrier(Communicator& processes, const char* what) {
  gather(processes, 0.0, what);
}

int thread_count(int64_t asked, const Communicator& processes) {
  if (asked > 0) return static_cast<int>(asked);
  int neighbours = 1;
  for (int rank = 0; rank < processes.size(); ++rank)
    neighbours +=
        rank != processes.rank() && processes.host(rank) == processes.host(processes.rank()) ? 1 : 0;
  const auto all = static_cast<int>(std::thread::hardware_concurrency());
  return neighbours == 1 ? available_cpus() : std::clamp(all / neighbours, 1, available_cpus());
}

}  // namespace gpt

#pragma once

#include <algorithm>
#include <barrier>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "distributed/communicator.h"

namespace gpt::test {

// Threads that play processes: every exchange waits for all of them.
class Team {
 public:
  explicit Team(int size) : size_(size), met_(size), sends_(static_cast<size_t>(size)) {}

  // Runs `work` as each of them.
  void run(const std::function<void(Communicator&)>& work) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([this, rank, &work] {
        Member member(*this, rank);
        work(member);
      });
    }
  }

 private:
  class Member : public Communicator {
   public:
    Member(Team& team, int rank) : team_(team), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return team_.size_; }
    std::string host(int) const override { return "a thread"; }
    Handle exchange(std::span<const std::span<const std::byte>> send,
                    std::span<const std::span<std::byte>> receive, const char*) override {
      const auto own = static_cast<size_t>(rank_);
      team_.sends_[own].assign(send.begin(), send.end());
      team_.met_.arrive_and_wait();
      for (size_t peer = 0; peer < receive.size(); ++peer) {
        if (peer == own) continue;
        const std::span<const std::byte> from = team_.sends_[peer][own];
        if (from.size() != receive[peer].size()) throw std::logic_error("messages of different lengths");
        std::copy(from.begin(), from.end(), receive[peer].begin());
      }
      team_.met_.arrive_and_wait();  // nobody writes before all have read
      return nullptr;
    }
    [[noreturn]] void abort(int) override { std::abort(); }

   private:
    Team& team_;
    int rank_;
  };

  int size_;
  std::barrier<> met_;
  std::vector<std::vector<std::span<const std::byte>>> sends_;  // by rank, to each
};

}  // namespace gpt::test

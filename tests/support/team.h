#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "distributed/communicator.h"
#include "support/patience.h"

namespace gpt::test {

// Simulates distributed ranks with threads.
class Team {
 public:
  explicit Team(int size) : size_(size) {}

  // Runs `work` concurrently on every rank.
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
  using Channel = Communicator::Channel;
  using Key = std::tuple<int, int, Channel, int64_t>;  // sender, receiver, channel, message number

  class Member : public Communicator {
   public:
    Member(Team& team, int rank) : team_(team), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return team_.size_; }
    std::string host(int) const override { return "a thread"; }
    Handle exchange(std::span<const std::span<const std::byte>> send,
                    std::span<const std::span<std::byte>> receive, const char*, Channel channel) override {
      auto operation = std::make_unique<Exchange>(team_);
      const std::lock_guard lock(team_.mutex_);
      for (int peer = 0; peer < size(); ++peer) {
        const auto at = static_cast<size_t>(peer);
        if (peer == rank_) continue;
        if (!send[at].empty())
          team_.messages_[{rank_, peer, channel, sent_[{peer, channel}]++}] = {send[at].begin(),
                                                                               send[at].end()};
        if (!receive[at].empty())
          operation->wanted[{peer, rank_, channel, received_[{peer, channel}]++}] = receive[at];
      }
      team_.changed_.notify_all();
      return operation;
    }
    [[noreturn]] void abort(int) override { std::abort(); }

   private:
    Team& team_;
    int rank_;
    std::map<std::pair<int, Channel>, int64_t> sent_, received_;
  };

  class Exchange : public Communicator::Operation {
   public:
    explicit Exchange(Team& team) : team_(team) {}
    ~Exchange() override { Exchange::wait(); }
    bool has_ended() override {
      const std::lock_guard lock(team_.mutex_);
      return take();
    }
    void wait() override {
      std::unique_lock lock(team_.mutex_);
      if (!team_.changed_.wait_for(lock, kPatience, [this] { return take(); }))
        throw std::logic_error("a message did not come");
    }

    std::map<Key, std::span<std::byte>> wanted;

   private:
    // Copies the messages that have arrived. Returns true if no message is missing.
    bool take() {
      std::erase_if(wanted, [this](const auto& entry) {
        const auto found = team_.messages_.find(entry.first);
        if (found == team_.messages_.end()) return false;
        if (found->second.size() != entry.second.size())
          throw std::logic_error("messages of different lengths");
        std::copy(found->second.begin(), found->second.end(), entry.second.begin());
        team_.messages_.erase(found);
        return true;
      });
      return wanted.empty();
    }

    Team& team_;
  };

  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::vector<std::byte>> messages_;  // sent but not yet received
};

}  // namespace gpt::test

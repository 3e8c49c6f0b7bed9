#include "serve/models/engine_worker.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "serve/api_error.h"
#include "support/patience.h"
#include "unit/infer/fake_decoder.h"

namespace gpt::serve {
namespace {

// Records the tokens of a job and signals its end.
class Record : public TokenSink {
 public:
  bool take(size_t sequence, const Event& event) override {
    ids[sequence].push_back(event.id);
    if (on_token) on_token();
    return ids[sequence].size() < most;
  }
  void end_step(bool all_ended) override {
    if (all_ended) over.set_value("");
  }
  void fail(const std::exception& error) override {
    if (const auto* api_error = dynamic_cast<const ApiError*>(&error)) status = api_error->status();
    over.set_value(error.what());
  }
  std::string wait() { return test::value_of(over); }

  std::map<size_t, std::vector<int32_t>> ids;
  size_t most = SIZE_MAX;
  int status = 0;  // status of the ApiError that ended the job
  std::function<void()> on_token;
  std::promise<std::string> over;
};

Request request(std::vector<int32_t> prompt, int64_t tokens, uint64_t number = 0) {
  return {.prompt = std::move(prompt), .max_tokens = tokens, .seed = 5, .number = number};
}

Job job(const std::shared_ptr<Record>& sink, size_t client, int64_t sequences, int64_t tokens) {
  Job out{.client = client, .sink = sink};
  for (int64_t i = 0; i < sequences; ++i)
    out.requests.push_back(request({1, 2, 3}, tokens, static_cast<uint64_t>(i)));
  return out;
}

std::vector<int32_t> alone(const Request& r) {
  FakeDecoder model(50, 64, 1);
  Engine engine(model, {});
  engine.submit(r);
  std::vector<int32_t> ids;
  while (!engine.idle()) {
    for (const Event& event : engine.step())
      ids.push_back(event.id);
  }
  return ids;
}

TEST(EngineWorker, GivesEveryClientWhatTheEngineGivesAlone) {
  FakeDecoder model(50, 64, 3);
  EngineWorker worker(model, {.step_rows = 8});
  std::vector<std::shared_ptr<Record>> sinks;
  for (size_t client = 0; client < 4; ++client) {
    sinks.push_back(std::make_shared<Record>());
    worker.submit(job(sinks.back(), client, 3, 12));
  }
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->wait(), "");
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(sink->ids[i], alone(request({1, 2, 3}, 12, i)));
  }
  EXPECT_EQ(worker.facts().waiting, 0);
}

// A sink can end its sequences between two tokens of the same forward pass.
TEST(EngineWorker, TokensOfAPassComeOneByOne) {
  FakeDecoder model(50, 64, 3), draft(50, 64, 3);
  EngineWorker worker(
      model,
      {.speculation = {.source = Speculation::Source::draft, .draft = &draft, .measures_steps = false}});
  const auto whole = std::make_shared<Record>(), cut = std::make_shared<Record>();
  cut->most = 7;
  const auto greedy = [](const std::shared_ptr<Record>& sink) {
    Job out = job(sink, 0, 2, 30);
    for (Request& r : out.requests)
      r.sampling.temperature = 0;
    return out;
  };
  worker.submit(greedy(whole));
  worker.submit(greedy(cut));
  EXPECT_EQ(whole->wait() + cut->wait(), "");
  worker.stop();
  Request expected = request({1, 2, 3}, 30);
  expected.sampling.temperature = 0;
  EXPECT_EQ(whole->ids[1], alone(expected));
  EXPECT_EQ(cut->ids[0].size(), 7u);
  const Engine::Counts counts = worker.facts().counts;
  EXPECT_GT(counts.accepted, 20);
  EXPECT_LE(counts.accepted, counts.proposed);
}

TEST(EngineWorker, ASinkEndsItsSequences) {
  FakeDecoder model(50, 64, 2);
  EngineWorker worker(model, {});
  const auto sink = std::make_shared<Record>();
  sink->most = 4;
  worker.submit(job(sink, 0, 2, 40));
  EXPECT_EQ(sink->wait(), "");
  EXPECT_EQ(sink->ids[0].size(), 4u);
  EXPECT_EQ(sink->ids[1].size(), 4u);
}

// Blocks the worker thread, so that jobs submitted in the meantime are queued.
class Gate : public SideTask {
 public:
  bool run(int64_t) override {
    entered.set_value();
    test::value_of(opened);
    return true;
  }
  void fail(const std::exception&) override {}
  std::promise<void> entered, opened;
};

std::shared_ptr<Gate> hold(EngineWorker& worker) {
  const auto gate = std::make_shared<Gate>();
  worker.submit_side(gate, 9);  // a separate client
  test::value_of(gate->entered);
  return gate;
}

TEST(EngineWorker, AQueueThatIsFullIs429AndAJobThatIsTooLargeIs400) {
  FakeDecoder model(50, 64, 1);
  EngineWorker worker(model, {.max_waiting = 5, .max_of_client = 3});
  const auto gate = hold(worker);  // counts as queued until it has finished
  const auto sink = std::make_shared<Record>(), other = std::make_shared<Record>();
  const auto status = [&](size_t client, int64_t n) {
    try {
      worker.submit(job(std::make_shared<Record>(), client, n, 2));
    } catch (const ApiError& error) {
      return error.status();
    }
    return 200;
  };
  EXPECT_EQ(status(0, 4), 400);
  worker.submit(job(sink, 0, 3, 2));
  EXPECT_EQ(status(0, 1), 429) << "one client has only its part of the queue";
  worker.submit(job(other, 1, 1, 2));
  EXPECT_EQ(status(2, 1), 429);
  gate->opened.set_value();
  EXPECT_EQ(sink->wait() + other->wait(), "");
}

// A task that queues a second task.
class Chain : public Gate {
 public:
  Chain(EngineWorker& worker, std::shared_ptr<SideTask> after) : worker_(worker), after_(std::move(after)) {}
  bool run(int64_t rows) override {
    worker_.submit_side(after_, 1);
    return Gate::run(rows);
  }

 private:
  EngineWorker& worker_;
  std::shared_ptr<SideTask> after_;
};

TEST(EngineWorker, TasksOfAClientAreLimitedAsItsSequencesAre) {
  FakeDecoder model(50, 64, 1);
  EngineWorker worker(model, {.max_waiting = 4, .max_of_client = 2});
  const auto last = std::make_shared<Gate>();
  const auto chain = std::make_shared<Chain>(worker, last);
  const auto gate = hold(worker);
  const auto refused = [&](size_t client) {
    try {
      worker.submit_side(std::make_shared<Gate>(), client);
    } catch (const ApiError& error) {
      return error.status() == 429;
    }
    return false;
  };
  worker.submit_side(chain, 1);
  const auto sink = std::make_shared<Record>();
  worker.submit(job(sink, 1, 1, 2));
  EXPECT_TRUE(refused(1));
  gate->opened.set_value();
  test::value_of(chain->entered);
  EXPECT_TRUE(refused(1)) << "what a running task queues has a place always, and counts";
  chain->opened.set_value();
  test::value_of(last->entered);
  last->opened.set_value();
  EXPECT_EQ(sink->wait(), "");
}

TEST(EngineWorker, ClientsTakeTurns) {
  FakeDecoder model(50, 64, 1);  // one sequence at a time
  EngineWorker worker(model, {});
  const auto gate = hold(worker);
  std::vector<size_t> order;  // only accessed by the worker thread
  std::vector<std::shared_ptr<Record>> sinks;
  for (const size_t client : {0u, 1u}) {
    sinks.push_back(std::make_shared<Record>());
    sinks.back()->on_token = [&order, client] { order.push_back(client); };
    worker.submit(job(sinks.back(), client, client == 0 ? 4 : 2, 1));
  }
  gate->opened.set_value();
  EXPECT_EQ(sinks[0]->wait() + sinks[1]->wait(), "");
  worker.stop();
  EXPECT_EQ(order.size(), 6u);
  EXPECT_NE(order[0], order[1]);
  EXPECT_NE(order[2], order[3]);
}

TEST(EngineWorker, ACancelledJobIsNotHeardOfAgain) {
  FakeDecoder model(50, 64, 2);
  EngineWorker worker(model, {});
  const auto gate = hold(worker);
  const auto cancelled = std::make_shared<Record>(), other = std::make_shared<Record>();
  const int64_t id = worker.submit(job(cancelled, 0, 4, 30));
  worker.submit(job(other, 0, 1, 3));
  worker.cancel(id);
  worker.cancel(id + 100);
  gate->opened.set_value();
  EXPECT_EQ(other->wait(), "");
  EXPECT_TRUE(cancelled->ids.empty());
  EXPECT_EQ(worker.facts().waiting, 0);
}

TEST(EngineWorker, StoppingFailsWhatHasNotEnded) {
  FakeDecoder model(50, 64, 1);
  EngineWorker worker(model, {});
  const auto gate = hold(worker);
  const auto sink = std::make_shared<Record>();
  worker.submit(job(sink, 0, 3, 10));
  std::thread stopping([&] { worker.stop(); });
  const auto stopped = [&] {
    try {
      worker.submit(job(std::make_shared<Record>(), 0, 1, 1));
    } catch (const ApiError& error) {
      return error.status() == 503;
    }
    return false;
  };
  EXPECT_TRUE(test::wait_until(stopped));
  gate->opened.set_value();
  stopping.join();
  EXPECT_NE(sink->wait(), "");
  EXPECT_EQ(sink->status, 503);
}

TEST(EngineWorker, WhatTheEngineRefusesFailsAlone) {
  FakeDecoder model(50, 64, 1);
  EngineWorker worker(model, {});
  const auto bad = std::make_shared<Record>(), good = std::make_shared<Record>();
  worker.submit({.requests = {request({99}, 3)}, .sink = bad});
  worker.submit(job(good, 0, 1, 3));
  EXPECT_NE(bad->wait(), "");
  EXPECT_EQ(good->wait(), "");
}

}  // namespace
}  // namespace gpt::serve

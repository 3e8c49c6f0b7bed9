// Tests adapters and the threads of a context through the public library interface.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "unit/api/fixture.h"

namespace gptcpp {
namespace {

constexpr const char* kModel = GPT_SOURCE_DIR "/tests/golden/data/llama";
constexpr int64_t kRank = 2, kLayers = 2, kIn = 18, kOut = 28;
constexpr int64_t kAdapterBytes = kLayers * kRank * (kIn + kOut) * 4;

// Writes an adapter of the query projections in the PEFT format.
void write_adapter(const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/adapter_config.json")
      << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})";
  std::string header = "{";
  std::vector<float> values;
  const auto add = [&](int64_t layer, const char* half, int64_t rows, int64_t cols) {
    const size_t begin = values.size() * sizeof(float);
    for (int64_t i = 0; i < rows * cols; ++i)
      values.push_back(static_cast<float>((i * 7 + layer) % 11 - 5) / 8);
    header += (header.size() > 1 ? ", \"" : "\"") +
              ("base_model.model.model.layers." + std::to_string(layer)) + ".self_attn.q_proj.lora_" + half +
              ".weight\": {\"dtype\": \"F32\", \"shape\": [" + std::to_string(rows) + ", " +
              std::to_string(cols) + "], \"data_offsets\": [" + std::to_string(begin) + ", " +
              std::to_string(values.size() * sizeof(float)) + "]}";
  };
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    add(layer, "A", kRank, kIn);
    add(layer, "B", kOut, kRank);
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  std::ofstream file(folder + "/adapter_model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
}

// Loads the same adapter under four names, which gives 64 different lists of one to four adapters.
class Adapters : public testing::Test {
 protected:
  Adapters() {
    write_adapter(dir_.path());
    for (const char* name : {"a", "b", "c", "d"})
      options_.adapters.push_back({.name = name, .path = dir_.path()});
    std::vector<std::string> list;
    add_lists(list);
  }
  void add_lists(std::vector<std::string>& list) {
    for (const AdapterOptions& adapter : options_.adapters) {
      if (std::ranges::find(list, adapter.name) != list.end()) continue;
      list.push_back(adapter.name);
      lists_.push_back(list);
      add_lists(list);
      list.pop_back();
    }
  }
  static std::vector<float> logits(Session& session, const std::vector<std::string>& adapters) {
    const std::span<const float> found = session.logits(adapters);
    return {found.begin(), found.end()};
  }

  gpt::test::TempDir dir_;
  ModelOptions options_;
  std::vector<std::vector<std::string>> lists_;
};

TEST_F(Adapters, SumsAreCountedAndBounded) {
  const Context context({.threads = 1});
  Session session(Model(context, kModel, options_));
  session.feed(std::vector<int32_t>{1, 2, 3});
  const std::vector<float> plain = logits(session, {});
  const int64_t before = context.memory_used();
  const std::vector<float> with_a = logits(session, {"a"});
  EXPECT_NE(with_a, plain);
  EXPECT_EQ(context.memory_used(), before + kAdapterBytes);
  ASSERT_EQ(lists_.size(), 64u);
  for (int round = 0; round < 2; ++round) {
    for (const auto& list : lists_) {
      logits(session, list);
      EXPECT_LE(context.memory_used(), before + 32 * 4 * kAdapterBytes);
    }
  }
  EXPECT_EQ(logits(session, {"a"}), with_a);
  EXPECT_EQ(logits(session, {}), plain);
}

// The memory limit allows one sum of four adapters. Unused sums must be freed to stay below it.
TEST_F(Adapters, SumsKeepToTheMemoryLimit) {
  int64_t base = 0;
  {
    const Context context({.threads = 1});
    Session session(Model(context, kModel, options_));
    base = context.memory_used();
  }
  const Context context({.threads = 1, .memory_limit = base + 4 * kAdapterBytes});
  const Model model(context, kModel, options_);
  {
    Session session(model);
    session.feed(std::vector<int32_t>{1, 2, 3});
    for (const auto& list : lists_)
      EXPECT_NO_THROW(logits(session, list));
    EXPECT_GT(context.memory_used(), base);
  }
  const Context tight({.threads = 1, .memory_limit = base + 2 * kAdapterBytes});
  Session session(Model(tight, kModel, options_));
  session.feed(std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(code_of([&] { logits(session, {"a", "b", "c"}); }), code(Code::out_of_memory));
  EXPECT_NO_THROW(logits(session, {"a", "b"}));
}

// A request keeps the adapter sum that it needs, so a queued request is computed with the correct sum.
TEST_F(Adapters, RequestsKeepTheirSums) {
  const Context context({.threads = 1});
  const Model model(context, kModel, options_);
  const std::vector<int32_t> prompt = {1, 2, 3};
  GenerateOptions options{.max_tokens = 4, .sampling = {.temperature = 0}};
  std::vector<std::vector<int32_t>> alone;
  for (const auto& list : lists_) {
    Session session(model);
    session.feed(prompt);
    options.adapters = list;
    alone.push_back(session.generate(options).ids);
  }
  Engine engine(model, {.slots = 2});
  std::map<int64_t, std::vector<int32_t>> together;
  for (const auto& list : lists_) {
    options.adapters = list;
    engine.submit(prompt, options);
  }
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      if (event.piece.id >= 0) together[event.request].push_back(event.piece.id);
    }
  }
  for (size_t i = 0; i < lists_.size(); ++i)
    EXPECT_EQ(together[static_cast<int64_t>(i)], alone[i]) << i;
}

int64_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(Threads, SessionsOfAContextShareThem) {
  const Context context({.threads = 3});
  const Model model(context, kModel);
  const std::vector<int32_t> prompt = {1, 2, 3};
  Session first(model);
  first.feed(prompt);
  const std::span<const float> expected = first.logits();
  const int64_t before = threads_of_process();
  for (int threads = 0; threads <= 3; ++threads) {
    Session session(model, {.threads = threads});
    session.feed(prompt);
    EXPECT_TRUE(std::ranges::equal(session.logits(), expected)) << threads;
  }
  EXPECT_LE(threads_of_process(), before);
  for (const int threads : {-1, 4}) {
    EXPECT_EQ(code_of([&] { Session(model, {.threads = threads}); }), code(Code::invalid_argument));
    EXPECT_EQ(code_of([&] { check(model, EngineOptions{.threads = threads}); }),
              code(Code::invalid_argument));
  }
}

TEST(Threads, ManySessionsComputeConcurrently) {
  const Context context({.threads = 2});
  const Model model(context, kModel);
  const std::vector<int32_t> prompt = {1, 2, 3};
  const GenerateOptions options{.max_tokens = 12, .sampling = {.temperature = 0}};
  Session alone(model);
  alone.feed(prompt);
  const std::vector<int32_t> expected = alone.generate(options).ids;
  std::vector<std::thread> callers;
  std::vector<std::vector<int32_t>> ids(6);
  for (std::vector<int32_t>& result : ids) {
    callers.emplace_back([&] {
      Session session(model);
      session.feed(prompt);
      result = session.generate(options).ids;
    });
  }
  for (std::thread& caller : callers)
    caller.join();
  for (const std::vector<int32_t>& result : ids)
    EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace gptcpp

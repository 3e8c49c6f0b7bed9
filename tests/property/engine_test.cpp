// Tests that a request always gets bit-identical tokens and log-probabilities. The results must not depend on
// concurrent requests, on the step size, on the cache size, or on earlier requests.

#include "infer/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "infer/cached_model.h"
#include "support/backend.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

constexpr int64_t kBlock = KvCache::kBlock;

struct Setting {
  std::string name, family, keys;
  Isa isa = best_isa();
  std::optional<DType> kv_dtype = {}, weights = {};
  void (*set_layers)(std::vector<LayerConfig>&) = nullptr;
};
std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.name;
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Isa isa : available_isas()) {
    const std::string name(isa_name(isa));
    all.push_back({"gpt2_" + name, "gpt2", R"({"n_ctx": 150})", isa});
    all.push_back({"llama_" + name, "llama", R"({"n_ctx": 150, "n_kv_head": 2})", isa});
  }
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8, DType::q4_0}) {
    const std::string name = "kv_" + std::string(dtype_name(dtype));
    const std::string keys = dtype == DType::q4_0 ? R"({"n_ctx": 150, "n_embd": 128})" : R"({"n_ctx": 150})";
    all.push_back({name, "nanochat", keys, best_isa(), dtype});
    all.push_back({name + "_ref", "nanochat", keys, Isa::ref, dtype});
  }
  for (const DType dtype : {DType::bf16, DType::f16, DType::q8_0, DType::q4_0}) {
    const std::string keys = R"({"n_ctx": 150, "n_embd": 64, "d_ff": 96, "n_kv_head": 2})";
    const std::string name = "weights_" + std::string(dtype_name(dtype));
    all.push_back({name, "llama", keys, best_isa(), inference_types(dtype).cache, dtype});
  }
  all.push_back({"short_windows",
                 "llama",
                 R"({"n_ctx": 200, "n_layer": 7, "n_kv_head": 2})",
                 best_isa(),
                 {},
                 {},
                 toy_shared_kv});
  return all;
}

struct Result {
  std::vector<int32_t> ids;
  std::vector<double> logprobs;

  void take(int32_t id, const Logprobs& l) {
    ids.push_back(id);
    logprobs.push_back(l.chosen.logprob);
    for (const TokenLogprob& top : l.top)
      logprobs.push_back(top.logprob);
  }
  bool operator==(const Result&) const = default;
};

class Engines : public testing::TestWithParam<Setting> {
 protected:
  Engines()
      : config_(make_config({GetParam().name, GetParam().family, GetParam().keys, GetParam().set_layers})),
        random_model_(config_, DType::f32),
        slides_(config_.position == Position::rope) {}

  Inference make(ThreadPool& pool, int slots, int64_t max_rows, int64_t cache_tokens = 0) const {
    Inference::Options options;
    options.slots = slots;
    options.max_rows = max_rows;
    options.cache_tokens = cache_tokens;
    options.slide = slides_;
    options.kv_dtype = GetParam().kv_dtype;
    options.weights = GetParam().weights;
    options.dtype = inference_types(options.weights.value_or(DType::f32)).activations;
    return {random_model_.model, backend(pool, GetParam().isa), options};
  }

  // Generates the expected result directly: one sequence that is fed token by token or all at once.
  Result alone(const Request& r) const {
    ThreadPool pool(1);
    Inference inference = make(pool, 1, 512);
    Sampler sampler(inference.backend(), config_.vocab_size);
    std::vector<int32_t> ids = r.prompt;
    const Buffer logits(static_cast<size_t>(config_.vocab_size) * sizeof(float), "logits", device());
    const int64_t shape[] = {1, config_.vocab_size};
    const TensorView row = logits.view(0, DType::f32, shape);
    Result result;
    size_t fed = 0;
    while (std::ssize(result.ids) < r.max_tokens) {
      const bool full = inference.length(0) >= config_.n_ctx;
      if (full && r.context == ContextPolicy::stop) break;
      if (r.context == ContextPolicy::crop && std::ssize(ids) > config_.n_ctx) {
        inference.reset(0);
        fed = ids.size() - static_cast<size_t>(config_.n_ctx);
      }
      const Inference::Append append{0, std::span(ids).subspan(fed)};
      cut_batch(
          {&append, 1}, inference.max_rows(), [&](int slot) { return inference.room(slot); },
          [&](std::span<const Inference::Append> step, int64_t) { inference.append(step, row); });
      fed = ids.size();
      Draw draw{.params = &r.sampling,
                .history = {r.prompt, result.ids},
                .random = {r.seed, RandomSite::sample, result.ids.size(), r.number},
                .logprobs = r.logprobs};
      sampler.draw(row, {&draw, 1});
      result.take(draw.id, draw.result);
      ids.push_back(draw.id);
    }
    return result;
  }

  Request random_request(RandomStream& random) const {
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(random.below(static_cast<uint64_t>(n)));
    };
    Request r;
    r.context = static_cast<ContextPolicy>(below(slides_ ? 3 : 2));
    // Prompts start with one of two shared texts, followed by one of three continuations. Some prompts are
    // short and grow, others are long.
    const bool brief = below(2) == 0;
    r.prompt =
        random_ids(below(brief ? 40 : config_.n_ctx * 3 / 4), config_.vocab_size, 50 + random.below(2));
    const int64_t own = 1 + below(brief || r.context == ContextPolicy::stop ? 30 : 120);
    for (const int32_t id : random_ids(own, config_.vocab_size, 60 + random.below(3)))
      r.prompt.push_back(id);
    if (r.context == ContextPolicy::stop) {
      r.prompt.resize(std::min(r.prompt.size(), static_cast<size_t>(config_.n_ctx)));
    }
    r.max_tokens = 1 + below(r.context == ContextPolicy::crop ? 12 : 60);
    r.sampling.temperature = static_cast<double>(below(3));
    r.seed = random.below(2);
    r.number = random.below(100);
    r.logprobs = 2;
    return r;
  }

  ModelConfig config_;
  RandomModel random_model_;
  bool slides_;
};

TEST_P(Engines, CompanyChangesNothing) {
  RandomStream random(21, RandomSite::test);
  std::vector<Request> requests;
  std::vector<Result> expected;
  for (int i = 0; i < (is_shadow() ? 6 : 12); ++i) {
    requests.push_back(random_request(random));
    expected.push_back(alone(requests.back()));
  }
  int64_t reused = 0;
  struct Run {
    int slots;
    int64_t step_rows, cache_tokens;
    int threads;
  };
  for (const Run& run : {Run{8, 64, 0, 1}, Run{16, 300, 6 * kBlock, 2}, Run{5, 7, 5 * kBlock, 1},
                         Run{3, 512, 9 * kBlock, 1}, Run{16, 40, 12 * kBlock, 3}}) {
    ThreadPool pool(run.threads);
    Inference inference = make(pool, run.slots, run.step_rows, run.cache_tokens);
    CachedModel model(inference, slides_);
    Engine engine(model, {.step_rows = run.step_rows});
    std::map<int64_t, size_t> which;
    std::map<int64_t, Result> results;
    const auto step = [&] {
      for (const Event& event : engine.step()) {
        ASSERT_NE(event.finish, FinishReason::error) << event.error;
        if (which.contains(event.request)) results[event.request].take(event.id, *event.logprobs);
      }
    };
    for (size_t submitted = 0; submitted < requests.size() || !engine.idle();) {
      for (uint64_t n = random.below(3); n > 0 && submitted < requests.size(); --n, ++submitted)
        which[engine.submit(requests[submitted])] = submitted;
      if (random.below(4) == 0) {  // submits a request only to cancel it
        const int64_t id = engine.submit(random_request(random));
        if (random.below(2) == 0) step();
        engine.cancel(id);
      }
      if (!engine.idle()) step();
    }
    for (const auto& [id, i] : which) {
      EXPECT_EQ(results[id], expected[i]) << "request " << i << " with " << run.slots << " slots, steps of "
                                          << run.step_rows << ", " << run.cache_tokens << " tokens of memory";
    }
    reused += engine.counts().reused;
    EXPECT_EQ(inference.available_blocks() * kBlock,
              run.cache_tokens > 0 ? run.cache_tokens
                                   : run.slots * KvCache::blocks_of_sequence(config_.n_ctx) * kBlock);
  }
  EXPECT_GT(reused, 0);
}

// The sequences start small and together outgrow the cache.
TEST_P(Engines, ThoseWhoGiveWayComeBackAsTheyWere) {
  ThreadPool pool(1);
  Inference inference = make(pool, 6, 64, 6 * kBlock);
  CachedModel model(inference, slides_);
  Engine engine(model, {.step_rows = 64});
  std::vector<Request> requests(5);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = random_ids(30 + static_cast<int64_t>(i), config_.vocab_size, i);
    requests[i].max_tokens = 110;
    requests[i].number = i;
    requests[i].logprobs = 1;
    engine.submit(requests[i]);
  }
  std::vector<Result> results(requests.size());
  while (!engine.idle()) {
    for (const Event& event : engine.step())
      results[static_cast<size_t>(event.request)].take(event.id, *event.logprobs);
  }
  EXPECT_GT(engine.counts().preemptions, 0);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(results[i], alone(requests[i])) << "request " << i;
}

INSTANTIATE_TEST_SUITE_P(Models, Engines, testing::ValuesIn(settings()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace gpt::test

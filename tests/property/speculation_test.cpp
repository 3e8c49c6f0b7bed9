// Tests that speculative decoding gives bit-identical tokens and log-probabilities to plain decoding. The
// results are equal for drafts of any quality, for single and concurrent requests, with little cache memory,
// and for every context policy.

#include "infer/speculation.h"

#include <gtest/gtest.h>

#include "infer/cached_model.h"
#include "infer/engine.h"
#include "support/backend.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

using Source = Speculation::Source;

constexpr int64_t kBlock = KvCache::kBlock;

struct Shape {
  std::string name, family, keys;
  std::optional<DType> kv_dtype = {}, weights = {};
  void (*set_layers)(std::vector<LayerConfig>&) = nullptr;
};
std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.name;
}

std::vector<Shape> shapes() {
  const std::string wide = R"({"n_ctx": 150, "n_embd": 64, "d_ff": 96, "n_kv_head": 2})";
  return {
      {"learned_positions", "gpt2", R"({"n_ctx": 150})"},
      {"rope_grouped", "llama", R"({"n_ctx": 150, "n_kv_head": 2})"},
      {"nanochat", "nanochat", R"({"n_ctx": 150})"},
      {"sliding_window", "llama", R"({"n_ctx": 150, "n_kv_head": 1, "sliding_window": 20})"},
      {"short_windows", "llama", R"({"n_ctx": 200, "n_layer": 7, "n_kv_head": 2})", {}, {}, toy_shared_kv},
      {"kv_int8", "llama", R"({"n_ctx": 150})", DType::i8},
      {"kv_bf16", "gpt2", R"({"n_ctx": 150})", DType::bf16},
      {"kv_q4_0", "llama", R"({"n_ctx": 150, "n_embd": 128})", DType::q4_0},
      {"weights_q8_0", "llama", wide, inference_types(DType::q8_0).cache, DType::q8_0},
      {"weights_bf16", "llama", wide, inference_types(DType::bf16).cache, DType::bf16}};
}

struct Result {
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
  std::optional<FinishReason> finish;
  bool operator==(const Result&) const = default;
};

class Speculations : public testing::TestWithParam<Shape> {
 protected:
  Speculations()
      : config_(make_config({GetParam().name, GetParam().family, GetParam().keys, GetParam().set_layers})),
        model_(config_, DType::f32),
        other_(config_, DType::f32, 77),
        slides_(config_.position == Position::rope) {}

  Inference make(const RandomModel& model, ThreadPool& pool, int slots, int64_t cache_tokens) const {
    Inference::Options options;
    options.slots = slots;
    options.max_rows = 64;
    options.cache_tokens = cache_tokens;
    options.slide = slides_;
    options.kv_dtype = GetParam().kv_dtype;
    options.weights = GetParam().weights;
    options.dtype = inference_types(options.weights.value_or(DType::f32)).activations;
    return {model.model, backend(pool, best_isa()), options};
  }

  struct Way {
    Source source = Source::off;
    bool same = false;  // the draft model is the model itself
    int slots = 1;
    int64_t cache_tokens = 0;
    int threads = 1;
  };
  std::vector<Result> run(const Way& way, const std::vector<Request>& requests, Engine::Counts& counts) {
    ThreadPool pool(way.threads);
    Inference inference = make(model_, pool, way.slots, way.cache_tokens);
    Inference draft_inference = make(way.same ? model_ : other_, pool, way.slots, way.cache_tokens);
    CachedModel model(inference, slides_), draft(draft_inference, slides_);
    const int64_t memory = inference.available_blocks();
    Engine engine(model, {.step_rows = 64, .speculation = {way.source, 12, &draft}});
    for (const Request& r : requests)
      engine.submit(r);
    std::vector<Result> results(requests.size());
    while (!engine.idle()) {
      for (const Event& event : engine.step()) {
        EXPECT_NE(event.finish, FinishReason::error) << event.error;
        Result& result = results[static_cast<size_t>(event.request)];
        result.ids.push_back(event.id);
        result.logprobs.push_back(event.logprobs->chosen.logprob);
        for (const TokenLogprob& top : event.logprobs->top)
          result.logprobs.push_back(top.logprob);
        result.finish = event.finish;
      }
    }
    EXPECT_EQ(inference.available_blocks(), memory);
    EXPECT_EQ(draft_inference.available_blocks(), memory);
    counts = engine.counts();
    return results;
  }

  // Returns greedy and sampled requests for repetitive text, some short and some longer than the context.
  // Guarded memory is slow, so the shadow device runs only one request of each kind.
  std::vector<Request> requests() const {
    std::vector<Request> all;
    for (uint64_t i = 0; i < (is_shadow() ? 8 : 18); ++i) {
      Request r;
      r.context = i % 3 == 0              ? ContextPolicy::stop
                  : i % 3 == 1 && slides_ ? ContextPolicy::slide
                                          : ContextPolicy::crop;
      const std::vector<int32_t> text = random_ids(9 + static_cast<int64_t>(i), config_.vocab_size, i / 2);
      for (uint64_t times = 0; times <= i % 4; ++times)
        r.prompt.insert(r.prompt.end(), text.begin(), text.end());
      r.max_tokens = r.context == ContextPolicy::crop ? 60 : 160;
      r.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
      r.sampling.repetition_penalty = i % 5 == 4 ? 1.05 : 1;
      r.seed = i / 6;
      r.number = i;
      r.logprobs = 2;
      if (i % 7 == 6) r.stop_ids = {5};
      all.push_back(std::move(r));
    }
    return all;
  }

  ModelConfig config_;
  RandomModel model_, other_;
  bool slides_;
};

TEST_P(Speculations, ChangeNothing) {
  const std::vector<Request> all = requests();
  Engine::Counts counts;
  const std::vector<Result> expected = run({}, all, counts);
  EXPECT_EQ(counts.proposed, 0);
  int64_t preemptions = 0;
  for (const Way& way :
       {Way{Source::ngram}, Way{Source::ngram, false, 9}, Way{Source::ngram, false, 9, 6 * kBlock, 2},
        Way{Source::draft, true}, Way{Source::draft, true, 9, 0, 3}, Way{Source::draft, true, 9, 6 * kBlock},
        Way{Source::draft, false}, Way{Source::draft, false, 9, 6 * kBlock}}) {
    const std::vector<Result> found = run(way, all, counts);
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(found[i], expected[i]) << "request " << i << ", source " << static_cast<int>(way.source)
                                       << ", same " << way.same << ", " << way.slots << " slots";
    EXPECT_GT(counts.accepted, 0);
    EXPECT_GT(counts.proposed, counts.accepted);
    if (way.cache_tokens > 0) preemptions += counts.preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Speculations, testing::ValuesIn(shapes()),
                         [](const auto& param) { return param.param.name; });

// The draft model is the model itself, so all draft tokens of a greedy request are accepted.
TEST_P(Speculations, OfTheModelItselfAllAreAccepted) {
  Request r;
  r.prompt = random_ids(10, config_.vocab_size, 1);
  r.max_tokens = 100;
  r.sampling.temperature = 0;
  r.logprobs = 0;
  Engine::Counts counts;
  run({Source::draft, true}, {r}, counts);
  EXPECT_EQ(counts.accepted, counts.proposed);
  EXPECT_EQ(counts.steps, 100 - counts.accepted);
  EXPECT_LT(counts.steps, 20);
}

}  // namespace
}  // namespace gpt::test

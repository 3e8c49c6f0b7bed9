// Tests that inference steps allocate no memory after warm-up. This file replaces `operator new` to count the
// allocations of all tests in this binary.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "infer/cached_model.h"
#include "infer/engine.h"
#include "support/backend.h"
#include "support/small_models.h"
#include "text/piece_cache.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}

[[gnu::noinline]] void* operator new(size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace gpt::test {
namespace {

TEST(Allocations, NoneInAStepOfTheEngine) {
  if (is_shadow()) GTEST_SKIP() << "the queue of the shadow device allocates";
  constexpr std::pair<const char*, DType> kCases[] = {
      {"gpt2", DType::f32}, {"llama", DType::f32}, {"llama", DType::q4_0}};
  for (const auto& [family, cache] : kCases) {
    const ModelConfig config = make_config({"", family, R"({"n_ctx": 400, "n_embd": 128})"});
    const RandomModel random(config, DType::f32);
    ThreadPool pool(2);
    Inference inference(random.model, backend(pool, best_isa()),
                        {.slots = 6, .max_rows = 64, .kv_dtype = cache});
    CachedModel model(inference, false);
    Engine engine(model, {.step_rows = 64});
    for (uint64_t round = 0; round < 2; ++round) {  // the second round reuses the memory of the first
      for (uint64_t i = 0; i < 6; ++i) {
        Request request;
        request.prompt = random_ids(20 + 50 * static_cast<int64_t>(i), config.vocab_size, 10 * round + i);
        request.max_tokens = 100;
        request.sampling.top_k = i % 2 == 0 ? 5 : 0;
        request.sampling.repetition_penalty = i == 3 ? 1.1 : 1;
        request.logprobs = static_cast<int64_t>(i) - 1;
        request.number = i;
        engine.submit(std::move(request));
      }
      int64_t allocations = 0;
      while (!engine.idle()) {
        const int64_t before = g_allocations.load();
        engine.step();
        allocations += g_allocations.load() - before;
      }
      if (round == 1) {
        EXPECT_EQ(allocations, 0) << family << ", cache of " << dtype_name(cache);
      } else {
        EXPECT_GT(allocations, 0) << "nothing is counted";
      }
    }
  }
}

// The window slides past many times its capacity.
TEST(Allocations, NoneInAWindowThatSlides) {
  if (is_shadow()) GTEST_SKIP() << "the queue of the shadow device allocates";
  const ModelConfig config = make_config({"", "llama", R"({"n_ctx": 70, "n_layer": 1})"});
  const RandomModel random(config, DType::f32);
  ThreadPool pool(2);
  Inference inference(random.model, backend(pool, best_isa()), {.slots = 2, .max_rows = 16, .slide = true});
  const std::vector<int32_t> ids = random_ids(12, config.vocab_size, 3);
  std::vector<float> logits(static_cast<size_t>(2 * config.vocab_size));
  const auto step = [&](int slot) {
    const int64_t before = g_allocations.load();
    const Inference::Append part{
        slot, std::span(ids).first(static_cast<size_t>(std::min<int64_t>(12, inference.room(slot))))};
    inference.append({&part, 1}, make_view(logits.data(), {1, config.vocab_size}));
    return g_allocations.load() - before;
  };
  for (int i = 0; i < 20; ++i)
    step(i % 2);
  int64_t allocations = 0;
  for (int i = 0; i < 1000; ++i)
    allocations += step(i % 2);
  EXPECT_GT(inference.length(0), 50 * inference.capacity());
  EXPECT_EQ(allocations, 0);
}

// An encoder in which every character of a piece is a part with one id.
struct EncodeCharacters {
  void operator()(std::string_view, std::vector<int32_t>& ids) const { ids.push_back(7); }
  void encode_part(std::string_view, std::vector<int32_t>& ids) const { ids.push_back(7); }
  size_t end_of_part(std::string_view, size_t from) const { return from + 3; }
  bool is_same_in_parts(int32_t) const { return true; }
};

TEST(Allocations, FewForThePartsOfOnePiece) {
  constexpr size_t kCharacters = 2000000;
  std::string text;
  for (size_t i = 0; i < kCharacters; ++i)
    text += "\u4e00";
  detail::PieceCaches caches;
  const int64_t before = g_allocations.load();
  detail::PieceEncoder encoder(caches, text.size(), EncodeCharacters{});
  encoder.add(text, text.size());
  EXPECT_EQ(encoder.all().size(), kCharacters);
  EXPECT_LT(g_allocations.load() - before, 60);
}

}  // namespace
}  // namespace gpt::test

// Tests that the logits of a token are bit-identical however its sequence was fed: at once or in chunks,
// alone or in a batch, after a copy, after resets of other slots, and with any number of threads.

#include <gtest/gtest.h>

#include "infer/feed.h"
#include "model/inference.h"
#include "model/training_graph.h"
#include "support/backend.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

const SmallConfig kConfigs[] = {
    {"gpt2", "gpt2", R"({"n_ctx": 150, "n_embd": 20, "vocab_size": 31})"},
    {"gpt1", "openai-gpt", R"({"n_ctx": 131})"},
    {"llama_gqa", "llama", R"({"n_ctx": 150, "n_kv_head": 2, "head_dim": 10, "d_ff": 33})"},
    {"llama_interleaved", "llama", R"({"n_ctx": 150, "rope_layout": "interleaved", "n_kv_head": 1})"},
    {"nanochat", "nanochat", R"({"n_ctx": 150, "n_kv_head": 2, "vocab_size": 37})"},
    {"no_final_norm", "gpt2",
     R"({"n_ctx": 150, "final_norm": false, "tie_embeddings": false, "head_bias": true})"},
    {"toy_layers", "llama", R"({"n_ctx": 150, "n_layer": 4, "n_kv_head": 2})", toy_layers},
    {"toy_norms", "gpt2", R"({"n_ctx": 131, "n_layer": 3})", toy_norms},
    {"toy_shared_kv", "llama", R"({"n_ctx": 150, "n_layer": 7, "n_kv_head": 2})", toy_shared_kv, 3},
    {"toy_middle", "gpt2", R"({"n_ctx": 131, "n_layer": 3})", toy_norms, 0},
    {"toy_middle_last", "llama", R"({"n_ctx": 131, "n_kv_head": 2})", nullptr, 1},
};

// Configs with matrices whose sizes are multiples of the quantization block of 32, and matrices whose sizes
// are not.
const SmallConfig kWiderConfigs[] = {
    {"gpt2", "gpt2", R"({"n_ctx": 150, "n_embd": 32, "d_ff": 40, "vocab_size": 67})"},
    {"llama", "llama", R"({"n_ctx": 150, "n_embd": 64, "n_kv_head": 2, "head_dim": 32, "d_ff": 96})"},
};

class Logits {
 public:
  Logits(int64_t rows, int64_t vocab, DType dtype = DType::f32)
      : memory_(static_cast<size_t>(rows * vocab) * dtype_size(dtype), "test logits"),
        view(make_view(memory_.data(), dtype, {rows, vocab})) {}

 private:
  Buffer memory_;

 public:
  TensorView view;
};

// Appends sequences of any length, in as many steps as needed.
void append(Inference& inference, std::span<const Inference::Append> batch, const TensorView& logits) {
  cut_batch(
      batch, inference.max_rows(), [&](int slot) { return inference.room(slot); },
      [&](std::span<const Inference::Append> step, int64_t first) {
        inference.append(step, logits.slice_rows(first, logits.rows() - first));
      });
}
void append_all(Inference& inference, int slot, std::span<const int32_t> ids, const TensorView& logits) {
  const Inference::Append all{slot, ids, std::ssize(ids)};
  append(inference, {&all, 1}, logits);
}

using Case = std::tuple<SmallConfig, Isa, DType>;  // weight dtype of matmuls

class Feeding : public testing::TestWithParam<Case> {
 protected:
  Feeding()
      : config_(make_config(std::get<0>(GetParam()))),
        random_(config_, DType::f32),
        ids_(random_ids(config_.n_ctx, config_.vocab_size, 1)) {}

  Inference make(ThreadPool& pool, int slots, int64_t max_rows = 512, bool slide = false) const {
    const DType weights = std::get<2>(GetParam());
    const InferenceTypes types = inference_types(weights);
    return {random_.model,
            backend(pool, std::get<1>(GetParam())),
            {.slots = slots,
             .max_rows = max_rows,
             .slide = slide,
             .dtype = types.activations,
             .weights = weights,
             .kv_dtype = types.cache}};
  }
  std::span<const int32_t> ids(size_t from, size_t n) const { return std::span(ids_).subspan(from, n); }
  size_t size() const { return ids_.size(); }

  // Returns the logits after every token, computed in one call.
  Logits all_at_once() const {
    ThreadPool pool(1);
    Inference inference = make(pool, 1);
    Logits logits(config_.n_ctx, config_.vocab_size);
    append_all(inference, 0, ids_, logits.view);
    return logits;
  }

  // Feeds the remaining ids to a slot in pieces, and compares the logits after each piece.
  void expect_same(Inference& inference, int slot, const std::vector<size_t>& pieces, const Logits& expected,
                   const std::string& what) const {
    Logits logits(1, config_.vocab_size);
    size_t at = static_cast<size_t>(inference.length(slot));
    for (size_t piece = 0; at < size(); ++piece) {
      const size_t n = std::min(pieces[piece % pieces.size()], size() - at);
      const Inference::Append part{slot, ids(at, n)};
      append(inference, {&part, 1}, logits.view);
      at += n;
      ASSERT_TRUE(same_bytes(logits.view, expected.view.slice_rows(static_cast<int64_t>(at) - 1, 1)))
          << what << ": other bits after " << at << " tokens";
    }
  }

  ModelConfig config_;
  RandomModel random_;
  std::vector<int32_t> ids_;
};

TEST_P(Feeding, ChunksThreadsAndStepSizeDoNotMatter) {
  const Logits expected = all_at_once();
  const std::vector<std::vector<size_t>> cuts = {{1}, {1000}, {5, 1, 64, 3, 2}, {63, 2}, {64}, {17, 33, 1}};
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int64_t max_rows : {512, 7}) {
      for (const std::vector<size_t>& cut : cuts) {
        if (threads > 2 && cut[0] == 1) continue;
        Inference inference = make(pool, 1, max_rows);
        expect_same(inference, 0, cut, expected,
                    fmt::format("{} threads, steps of {}, pieces of {}", threads, max_rows, cut[0]));
      }
      Inference inference = make(pool, 1, max_rows);
      Logits every(config_.n_ctx, config_.vocab_size);
      append_all(inference, 0, ids(0, 50), every.view.slice_rows(0, 50));
      append_all(inference, 0, ids(50, size() - 50), every.view.slice_rows(50, config_.n_ctx - 50));
      EXPECT_TRUE(same_bytes(every.view, expected.view)) << "append_all in two calls";
    }
  }
}

// Sixteen sequences are in the same batch, in random order, each at a different position of the same text.
TEST_P(Feeding, CompanyDoesNotMatter) {
  const Logits expected = all_at_once();
  ThreadPool pool(1);
  constexpr int kSlots = 16;
  Inference inference = make(pool, kSlots, 40);
  RandomStream random(9, RandomSite::test);
  Logits logits(8 * kSlots, config_.vocab_size);
  for (int round = 0; round < 30; ++round) {
    std::vector<Inference::Append> batch;
    for (int slot = 0; slot < kSlots; ++slot) {
      const auto at = static_cast<size_t>(inference.length(slot));
      const size_t n = std::min<size_t>(size() - at, random.below(9));
      if (n > 0) batch.push_back({slot, ids(at, n)});
      if (n == 0 && at == size()) inference.reset(slot);
    }
    for (size_t i = batch.size(); i > 1; --i)
      std::swap(batch[i - 1], batch[random.below(i)]);
    if (batch.empty()) continue;
    int64_t row = 0;
    for (Inference::Append& a : batch) {
      if (round % 2 == 1) a.wanted = static_cast<int64_t>(random.below(a.ids.size() + 1));
      row += a.wanted;
    }
    if (row == 0) batch.front().wanted = 1;
    append(inference, batch, logits.view);
    row = 0;
    for (const Inference::Append& a : batch) {
      if (a.wanted > 0) {
        ASSERT_TRUE(same_bytes(logits.view.slice_rows(row, a.wanted),
                               expected.view.slice_rows(inference.length(a.slot) - a.wanted, a.wanted)))
            << "round " << round << ", slot " << a.slot;
      }
      row += a.wanted;
    }
  }
}

TEST_P(Feeding, CopiesAndResetsDoNotMatter) {
  const Logits expected = all_at_once();
  ThreadPool pool(1);
  Inference inference = make(pool, 3);
  Logits logits(1, config_.vocab_size);
  const Inference::Append first{0, ids(0, 70)}, other{2, ids(30, 60)};
  append(inference, {&first, 1}, logits.view);
  append(inference, {&other, 1}, logits.view);  // the copy must replace these tokens
  inference.copy(0, 2);
  EXPECT_EQ(inference.length(2), 70);
  inference.reset(0);
  EXPECT_EQ(inference.length(0), 0);
  const Inference::Append noise{0, ids(11, 90)};
  append(inference, {&noise, 1}, logits.view);
  expect_same(inference, 2, {3, 40}, expected, "the copy");
  inference.reset(0);
  expect_same(inference, 0, {90, 7}, expected, "a slot used again");
  inference.copy(2, 2);
  EXPECT_EQ(inference.length(2), static_cast<int64_t>(size()));
}

// Slots randomly grow, are truncated, copied, reset and reused, with little cache memory. The logits must
// match those of a sequence that was fed once.
TEST_P(Feeding, WhatWasTakenBackNeverWas) {
  const Logits expected = all_at_once();
  ThreadPool pool(1);
  const DType weights = std::get<2>(GetParam());
  const InferenceTypes types = inference_types(weights);
  for (const DType cache : {types.cache, DType::bf16, DType::f16, DType::i8, DType::q4_0}) {
    if (config_.head_dim % block_size(cache).elements != 0) continue;
    constexpr int kSlots = 4;
    const Inference::Options options{.slots = kSlots,
                                     .max_rows = 23,
                                     .cache_tokens = 8 * KvCache::kBlock,
                                     .dtype = types.activations,
                                     .weights = weights,
                                     .kv_dtype = cache};
    Inference inference(random_.model, backend(pool, std::get<1>(GetParam())), options);
    Inference plain(random_.model, backend(pool, std::get<1>(GetParam())), options);
    Logits want(config_.n_ctx, config_.vocab_size), other(config_.n_ctx, config_.vocab_size);
    append_all(plain, 0, ids_, want.view);
    RandomStream random(12, RandomSite::test);
    const auto below = [&](size_t n) { return static_cast<size_t>(random.below(n)); };
    std::vector<size_t> right(kSlots);  // length of the prefix of each slot that matches ids_
    for (int round = 0; round < 60; ++round) {
      const auto slot = static_cast<int>(below(kSlots));
      size_t& known = right[static_cast<size_t>(slot)];
      switch (below(8)) {
        case 0:
          inference.reset(slot);
          known = static_cast<size_t>(inference.reuse(slot, ids(0, 1 + below(size()))));
          break;
        case 1: {
          const size_t from = below(kSlots);
          inference.copy(static_cast<int>(from), slot);
          known = right[from];
          break;
        }
        case 2:
        case 3: {  // append different tokens
          const size_t n =
              std::min<size_t>(1 + below(70), size() - static_cast<size_t>(inference.length(slot)));
          if (n == 0 || !inference.reserve(slot, static_cast<int64_t>(n))) break;
          append_all(inference, slot, ids(size() - n, n), other.view);
          break;
        }
        default: {
          const auto left = static_cast<int64_t>(below(known + 1));
          if (!inference.can_truncate(slot, left)) {  // a short window has moved on
            EXPECT_FALSE(config_.layers.empty());
            EXPECT_THROW(inference.truncate(slot, left), Error);
            break;
          }
          inference.truncate(slot, left);
          const auto at = static_cast<size_t>(inference.length(slot));
          const size_t n = std::min<size_t>(1 + below(90), size() - at);
          known = at;
          if (n == 0 || !inference.reserve(slot, static_cast<int64_t>(n))) break;
          const auto wanted = static_cast<int64_t>(below(n + 1));
          const Inference::Append part{slot, ids(at, n), wanted};
          append(inference, {&part, 1}, other.view);
          known = at + n;
          if (wanted > 0) {
            ASSERT_TRUE(same_bytes(other.view.slice_rows(0, wanted),
                                   want.view.slice_rows(static_cast<int64_t>(known) - wanted, wanted)))
                << dtype_name(cache) << ", round " << round << ", after " << known << " tokens";
          }
        }
      }
    }
    for (int slot = 0; slot < kSlots; ++slot)
      inference.reset(slot);
    EXPECT_EQ(inference.available_blocks(), 8) << "pages that were not released";
  }
}

TEST_P(Feeding, TooLongOrUnknownIdsAreErrors) {
  ThreadPool pool(1);
  Inference inference = make(pool, 1);
  Logits logits(1, config_.vocab_size);
  std::vector<int32_t> longer = ids_;
  longer.push_back(0);
  const Inference::Append part{0, longer};
  EXPECT_THROW(inference.append({&part, 1}, logits.view), Error);
  inference.reset(0);
  for (int32_t id : {-1, static_cast<int32_t>(config_.vocab_size)}) {
    const Inference::Append bad{0, {&id, 1}};
    EXPECT_THROW(inference.append({&bad, 1}, logits.view), Error);
    EXPECT_EQ(inference.length(0), 0) << "a refused token counts";
  }
  Inference narrow = make(pool, 2, 7);
  const Inference::Append eight{0, ids(0, 8)};
  const Inference::Append both[] = {{0, ids(0, 4)}, {1, ids(0, 4)}};
  EXPECT_TRUE(names(error_of([&] { narrow.append({&eight, 1}, logits.view); }), {7, 8}));
  EXPECT_TRUE(names(error_of([&] { narrow.append(both, logits.view); }), {7, 8}));
  EXPECT_EQ(narrow.length(0), 0);
  expect_same(inference, 0, {50}, all_at_once(), "after an error");
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto& [config, isa, dtype] = info.param;
  return fmt::format("{}_{}_{}", config.name, isa_name(isa), dtype_name(dtype));
}

INSTANTIATE_TEST_SUITE_P(Models, Feeding,
                         testing::Combine(testing::ValuesIn(kConfigs), testing::ValuesIn(available_isas()),
                                          testing::Values(DType::f32)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Types, Feeding,
                         testing::Combine(testing::ValuesIn(kWiderConfigs),
                                          testing::ValuesIn(available_isas()),
                                          testing::Values(DType::bf16, DType::f16, DType::q8_0, DType::q4_0)),
                         case_name);

// ---------------------------------------------------------------------------------------------------
// Sequences that are longer than the context.

class Sliding : public testing::TestWithParam<Isa> {};

// Feeds three times the context length, in pieces of any size, with a copy halfway.
TEST_P(Sliding, PiecesDoNotMatterPastTheContext) {
  for (const auto& [n_ctx, family] :
       {std::pair<int, const char*>{16, "llama"}, {70, "llama"}, {64, "nanochat"}}) {
    const ModelConfig c =
        make_config({"slide", family, fmt::format(R"({{"n_ctx": {}, "n_kv_head": 2}})", n_ctx)});
    const RandomModel random(c, DType::f32);
    const std::vector<int32_t> ids = random_ids(3 * c.n_ctx + 70, c.vocab_size, 4);
    ThreadPool pool(1);
    const auto make = [&](int slots) {
      return Inference(random.model, backend(pool, GetParam()), {.slots = slots, .slide = true});
    };
    const auto total = static_cast<int64_t>(ids.size());
    Logits expected(total, c.vocab_size), last(1, c.vocab_size);
    Inference whole = make(1);
    append_all(whole, 0, ids, expected.view);
    for (const std::vector<size_t>& cut :
         std::vector<std::vector<size_t>>{{1}, {5, 30, 2}, {64, 65}, {3, 200}}) {
      Inference inference = make(2);
      int slot = 0;
      for (size_t at = 0, piece = 0; at < ids.size(); ++piece) {
        const size_t n = std::min(cut[piece % cut.size()], ids.size() - at);
        const Inference::Append part{slot, std::span(ids).subspan(at, n)};
        append(inference, {&part, 1}, last.view);
        at += n;
        ASSERT_TRUE(same_bytes(last.view, expected.view.slice_rows(static_cast<int64_t>(at) - 1, 1)))
            << "n_ctx " << n_ctx << ", pieces of " << cut[0] << ", after " << at;
        if (piece % 4 == 3) {
          inference.copy(slot, 1 - slot);
          inference.reset(slot);
          slot = 1 - slot;
        }
      }
      EXPECT_EQ(inference.length(slot), total);
    }
  }
}

// With one layer, keys depend only on their own token, and rotary positions are relative. The logits of a
// token that sees the last n_ctx keys therefore match the logits at the end of a new sequence of those n_ctx
// tokens.
TEST(SlidingWindow, EqualsAFreshSequenceOfTheLastTokensInOneLayer) {
  const ModelConfig c = make_config({"slide", "llama", R"({"n_ctx": 40, "n_layer": 1, "n_kv_head": 2})"});
  const RandomModel random(c, DType::f64);
  const std::vector<int32_t> ids = random_ids(3 * c.n_ctx, c.vocab_size, 5);
  ThreadPool pool(1);
  Inference sliding(random.model, backend(pool, Isa::ref), {.slots = 1, .slide = true, .dtype = DType::f64});
  Logits all(3 * c.n_ctx, c.vocab_size, DType::f64), fresh(1, c.vocab_size, DType::f64);
  append_all(sliding, 0, ids, all.view);
  Inference window(random.model, backend(pool, Isa::ref), {.slots = 1, .dtype = DType::f64});
  for (int64_t end : {c.n_ctx, c.n_ctx + 1, 2 * c.n_ctx - 3, 3 * c.n_ctx}) {
    window.reset(0);
    const Inference::Append part{
        0, std::span(ids).subspan(static_cast<size_t>(end - c.n_ctx), static_cast<size_t>(c.n_ctx))};
    append(window, {&part, 1}, fresh.view);
    for (int64_t v = 0; v < c.vocab_size; ++v) {
      // The angles are up to 120 radians and lose seven bits, which gives errors of 1e-14 times a few
      // products.
      EXPECT_NEAR(get(fresh.view, 0, v), get(all.view, end - 1, v), 1e-11) << "token " << end;
    }
  }
}

// Some layers have short windows. Sequences stay within the context or exceed it, and a new sequence reuses
// the prefix of an earlier one.
TEST_P(Sliding, ShortWindowsDoNotMatter) {
  const ModelConfig c =
      make_config({"windows", "llama", R"({"n_ctx": 300, "n_layer": 7, "n_kv_head": 2})", toy_shared_kv});
  const RandomModel random(c, DType::f32);
  const std::vector<int32_t> ids = random_ids(2 * c.n_ctx, c.vocab_size, 4);
  ThreadPool pool(1);
  for (const bool slide : {false, true}) {
    const auto total = slide ? std::ssize(ids) : c.n_ctx;
    const auto make = [&](int64_t max_rows) {
      return Inference(random.model, backend(pool, GetParam()),
                       {.slots = 3, .max_rows = max_rows, .slide = slide});
    };
    Logits expected(total, c.vocab_size), last(1, c.vocab_size);
    Inference whole = make(2 * c.n_ctx), inference = make(9);
    append_all(whole, 0, std::span(ids).first(static_cast<size_t>(total)), expected.view);
    EXPECT_LT(inference.bytes(), whole.bytes());
    const auto feed = [&](int slot, int64_t to) {
      while (inference.length(slot) < to) {
        const int64_t at = inference.length(slot);
        const int64_t n = std::min({int64_t{9}, inference.room(slot), to - at});
        const Inference::Append part{slot,
                                     std::span(ids).subspan(static_cast<size_t>(at), static_cast<size_t>(n))};
        inference.append({&part, 1}, last.view);
        ASSERT_TRUE(same_bytes(last.view, expected.view.slice_rows(at + n - 1, 1))) << "after " << at + n;
      }
    };
    feed(0, 230);
    inference.copy(0, 1);
    inference.truncate(1, 200);
    feed(1, 250);
    EXPECT_EQ(inference.reuse(2, std::span(ids).first(240)), 239);
    feed(2, total);
    feed(0, total);
    feed(1, total);
  }
}

TEST_P(Sliding, AStepTakesNoMoreThanTheRoom) {
  const ModelConfig c = make_config({"slide", "llama", R"({"n_ctx": 70, "n_kv_head": 2})"});
  const RandomModel random(c, DType::f32);
  const std::vector<int32_t> ids = random_ids(c.n_ctx + 1, c.vocab_size, 4);
  ThreadPool pool(1);
  Inference inference(random.model, backend(pool, GetParam()), {.slots = 1, .slide = true});
  Logits last(1, c.vocab_size);
  const Inference::Append part{0, ids};
  EXPECT_EQ(inference.room(0), 70);
  EXPECT_TRUE(names(error_of([&] { inference.append({&part, 1}, last.view); }), {70, 71}));
  EXPECT_EQ(inference.length(0), 0);
}

// Tokens of the last step and tokens that are still in the window can be truncated. Earlier tokens cannot.
TEST_P(Sliding, TakesBackWhatTheWindowHas) {
  const ModelConfig c = make_config({"slide", "llama", R"({"n_ctx": 70, "n_kv_head": 2})"});
  const RandomModel random(c, DType::f32);
  const std::vector<int32_t> ids = random_ids(6 * c.n_ctx, c.vocab_size, 4);
  ThreadPool pool(1);
  const auto make = [&] {
    return Inference(random.model, backend(pool, GetParam()), {.slots = 1, .slide = true});
  };
  Logits expected(std::ssize(ids), c.vocab_size), last(c.n_ctx, c.vocab_size);
  Inference whole = make(), inference = make();
  append_all(whole, 0, ids, expected.view);
  EXPECT_THROW(whole.truncate(0, 100), Error);
  EXPECT_EQ(whole.length(0), std::ssize(ids));
  RandomStream steps(2, RandomSite::test);
  for (int64_t at = 0; at < std::ssize(ids);) {
    const int64_t most = std::min<int64_t>({inference.room(0), 40, std::ssize(ids) - at});
    const auto n = static_cast<int64_t>(1 + steps.below(static_cast<uint64_t>(most)));
    const auto kept = static_cast<int64_t>(steps.below(static_cast<uint64_t>(n + 1)));
    std::vector<int32_t> tokens(ids.begin() + at, ids.begin() + at + n);
    for (int64_t i = kept; i < n; ++i)
      tokens[static_cast<size_t>(i)] =
          (tokens[static_cast<size_t>(i)] + 1) % static_cast<int32_t>(c.vocab_size);
    append_all(inference, 0, tokens, last.view);
    inference.truncate(0, at + kept);
    if (kept > 0) {
      ASSERT_TRUE(same_bytes(last.view.slice_rows(0, kept), expected.view.slice_rows(at, kept))) << at;
    }
    at += kept;
  }
}

TEST(SlidingWindow, NeedsRotaryPositions) {
  const RandomModel random(make_config(small_config("gpt2")), DType::f32);
  ThreadPool pool(1);
  EXPECT_ERROR(Inference(random.model, backend(pool, Isa::ref), {.slide = true}),
               ErrorCode::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Isas, Sliding, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(isa_name(param.param)); });

// Training and inference use the same layers.
TEST(TrainingAndInference, GiveTheSameLoss) {
  for (const SmallConfig& small : all_configs()) {
    const ModelConfig c = make_config(small);
    const RandomModel random(c, DType::f64);
    const std::vector<int32_t> ids = random_ids(c.n_ctx, c.vocab_size, 6),
                               targets = random_ids(c.n_ctx, c.vocab_size, 7);
    ThreadPool pool(1);
    Inference inference(random.model, backend(pool, Isa::ref), {.slots = 1, .dtype = DType::f64});
    Logits logits(c.n_ctx, c.vocab_size, DType::f64);
    append_all(inference, 0, ids, logits.view);
    double expected = 0;
    for (int64_t t = 0; t < c.n_ctx; ++t) {
      double sum = 0;
      for (int64_t v = 0; v < c.vocab_size; ++v)
        sum += std::exp(get(logits.view, t, v));
      expected += std::log(sum) - get(logits.view, t, targets[static_cast<size_t>(t)]);
    }
    TrainingGraph graph(random.model, 1, c.n_ctx, {.gradients = false, .dtype = DType::f64},
                        backend(pool, Isa::ref));
    EXPECT_NEAR(graph.loss({.ids = ids.data(), .targets = targets.data()}), expected, 1e-10) << small.name;
  }
}

}  // namespace
}  // namespace gpt::test

#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"

namespace gpt {
namespace {

constexpr int64_t kBlock = KvCache::kBlock;

ModelConfig config() {
  return test::make_config({"llama", "llama", R"({"n_kv_head": 2})"});
}

// There are three window classes. The last layer has a window of 100 and reads the KV cache of layer 0.
ModelConfig windows_config() {
  return test::make_config({"windows", "llama", R"({"n_kv_head": 2, "n_layer": 4})", [](auto& layers) {
                              layers[0].window = 10;
                              layers[1].window = 70;
                              layers[3].kv_layer = 0;
                              layers[3].window = 100;
                            }});
}

KvCache make(int slots, int64_t capacity, int64_t tokens = 0, DType dtype = DType::f32) {
  return {config(), {.slots = slots, .capacity = capacity, .tokens = tokens, .dtype = dtype}, nullptr};
}

constexpr int64_t kStep = 90;
KvCache make_windows(int slots, int64_t capacity, int64_t tokens = 0) {
  return {windows_config(), {.slots = slots, .capacity = capacity, .tokens = tokens, .step = kStep}, nullptr};
}

std::vector<int32_t> range(int32_t first, int64_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// Returns a fake key of a token, which is a function of all tokens up to it.
float content(std::span<const int32_t> tokens, int64_t layer) {
  uint64_t hash = static_cast<uint64_t>(layer) + 1;
  for (const int32_t token : tokens)
    hash = (hash ^ static_cast<uint64_t>(token + 1)) * 0x9E3779B97F4A7C15ull;
  return static_cast<float>(hash >> 40);
}

// A cache and the expected content of each slot.
class Checked {
 public:
  Checked(KvCache checked, std::vector<int64_t> windows, bool slides)
      : cache(std::move(checked)),
        windows_(std::move(windows)),
        slides_(slides),
        ids_(static_cast<size_t>(cache.slots())) {}

  // Appends tokens like a forward pass. Returns false if there is not enough memory.
  bool grow(int slot, std::span<const int32_t> tokens) {
    if (!cache.reserve(slot, std::ssize(tokens))) return false;
    std::vector<int32_t>& ids = ids_[static_cast<size_t>(slot)];
    cache.append(slot, tokens);
    for (const int32_t token : tokens) {
      ids.push_back(token);
      for (int64_t layer = 0; layer < std::ssize(windows_); ++layer) {
        const int64_t row = cache.row(slot, std::ssize(ids) - 1, cache.class_of(layer));
        cache.keys(layer).row<float>(row)[0] = content(ids, layer);
        cache.values(layer).row<float>(row)[0] = -content(ids, layer);
      }
    }
    return true;
  }
  int64_t room(int slot) const {
    const int64_t left = cache.capacity() - cache.length(slot);
    return slides_ ? std::max(left, kBlock - cache.length(slot) % kBlock) : left;
  }
  void reset(int slot) {
    cache.reset(slot);
    ids_[static_cast<size_t>(slot)].clear();
  }
  void copy(int from, int to) {
    cache.copy(from, to);
    ids_[static_cast<size_t>(to)] = ids_[static_cast<size_t>(from)];
  }
  // Returns false if the sliding window has moved past `n`.
  bool truncate(int slot, int64_t n) {
    if (!cache.truncate(slot, n)) return false;
    ids_[static_cast<size_t>(slot)].resize(static_cast<size_t>(n));
    return true;
  }
  int64_t reuse(int slot, std::span<const int32_t> tokens) {
    reset(slot);
    const int64_t known = cache.prospect(tokens).known;
    const int64_t n = cache.reuse(slot, tokens);
    EXPECT_LE(n, known);  // less if there is no memory for a partial page
    EXPECT_LT(n, std::ssize(tokens));
    ids_[static_cast<size_t>(slot)].assign(tokens.begin(), tokens.begin() + n);
    return n;
  }
  // Checks that all keys and values that the next token of any slot can see are unchanged.
  void check() const {
    for (int slot = 0; slot < cache.slots(); ++slot) {
      const std::span<const int32_t> ids = ids_[static_cast<size_t>(slot)];
      ASSERT_EQ(cache.length(slot), std::ssize(ids));
      for (int64_t layer = 0; layer < std::ssize(windows_); ++layer) {
        const int64_t window = std::min(cache.capacity(), windows_[static_cast<size_t>(layer)]);
        for (int64_t t = std::max<int64_t>(0, std::ssize(ids) - window + 1); t < std::ssize(ids); ++t) {
          const size_t k = cache.class_of(layer);
          const auto page = static_cast<size_t>(t / kBlock - cache.first_page(slot, k));
          const int64_t row = cache.row(slot, t, k);
          ASSERT_EQ(row, cache.pages(slot, k)[page] * kBlock + t % kBlock);
          const float expected = content(ids.first(static_cast<size_t>(t + 1)), layer);
          ASSERT_EQ(cache.keys(layer).row<float>(row)[0], expected) << "slot " << slot << ", token " << t;
          ASSERT_EQ(cache.values(layer).row<float>(row)[0], -expected);
        }
      }
    }
  }

  KvCache cache;

 private:
  std::vector<int64_t> windows_;  // by layer
  bool slides_;
  std::vector<std::vector<int32_t>> ids_;
};

// Slots randomly grow, are copied, reset and reused, with little memory. Many ids are equal.
TEST(KvCache, HoldsWhatEverySequenceComputed) {
  struct Case {
    int slots;
    int64_t capacity, tokens;
    bool slides, windows = false;
  };
  for (const Case& c :
       {Case{3, 200, 0, false}, Case{6, 200, 700, false}, Case{5, 130, 0, true}, Case{6, 64, 300, true},
        Case{4, 1, 0, true}, Case{8, 300, 400, false}, Case{3, 600, 0, false, true},
        Case{6, 600, 1500, false, true}, Case{5, 300, 0, true, true}, Case{6, 80, 300, true, true}}) {
    Checked checked(
        c.windows ? make_windows(c.slots, c.capacity, c.tokens) : make(c.slots, c.capacity, c.tokens),
        c.windows ? std::vector<int64_t>{100, 70, c.capacity} : std::vector<int64_t>(2, c.capacity),
        c.slides);
    std::vector<int64_t> blocks;
    for (size_t k = 0; k < checked.cache.classes(); ++k)
      blocks.push_back(checked.cache.available_blocks(k));
    RandomStream random(static_cast<uint64_t>(c.capacity + c.tokens), RandomSite::test);
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(random.below(static_cast<uint64_t>(n)));
    };
    int64_t reused = 0, refused = 0, kept = 0;
    for (int round = 0; round < 1500; ++round) {
      const auto slot = static_cast<int>(below(c.slots));
      const int64_t action = below(15);
      if (action == 0) checked.reset(slot);
      if (action == 1) checked.copy(static_cast<int>(below(c.slots)), slot);
      if (action == 2) {  // a text that shares a prefix with others
        std::vector<int32_t> tokens(static_cast<size_t>(1 + below(c.capacity)), 1);
        tokens[static_cast<size_t>(below(std::ssize(tokens)))] = 2;
        reused += checked.reuse(slot, tokens);
      }
      if (action > 11) {
        const int64_t length = checked.cache.length(slot);
        kept += checked.truncate(slot, below(2) == 0 ? below(length + 1) : std::max<int64_t>(0, length - 5))
                    ? 0
                    : 1;
      }
      if (action > 2 && action < 12) {
        const int64_t n = std::min(checked.room(slot), 1 + below(90));
        std::vector<int32_t> tokens(static_cast<size_t>(n), 1);
        if (n > 0 && below(4) == 0) tokens[static_cast<size_t>(below(n))] = static_cast<int32_t>(below(3));
        if (n == 0 || !checked.grow(slot, tokens)) {
          ++refused;
          checked.reset(slot);
        }
      }
      checked.check();
      if (testing::Test::HasFatalFailure()) FAIL() << "capacity " << c.capacity << ", round " << round;
    }
    EXPECT_EQ(reused > 0, c.capacity > 1);
    EXPECT_EQ(kept > 0, c.slides || c.windows) << "a window that had moved on";
    EXPECT_GT(refused, c.tokens > 0 ? 0 : -1);
    for (int slot = 0; slot < c.slots; ++slot)
      checked.reset(slot);
    EXPECT_EQ(checked.cache.available_blocks() * kBlock, checked.cache.size());
    for (size_t k = 0; k < checked.cache.classes(); ++k)
      EXPECT_EQ(checked.cache.available_blocks(k), blocks[k]) << "pages that were not released";
  }
}

TEST(KvCache, TakesWhatSequencesNeed) {
  KvCache cache = make(4, 1000, 20 * kBlock);
  EXPECT_EQ(cache.size(), 20 * kBlock);
  EXPECT_TRUE(cache.reserve(0, 1));
  EXPECT_TRUE(cache.reserve(1, kBlock + 1));
  EXPECT_EQ(cache.available_blocks(), 17);
  EXPECT_TRUE(cache.reserve(1, kBlock));  // already reserved
  EXPECT_EQ(cache.available_blocks(), 17);
  EXPECT_FALSE(cache.reserve(2, 17 * kBlock + 1));
  EXPECT_EQ(cache.available_blocks(), 17);
  cache.append(1, range(0, kBlock + 1));
  cache.copy(1, 2);  // takes no page until it grows
  EXPECT_EQ(cache.available_blocks(), 17);
  EXPECT_TRUE(cache.reserve(2, 1));  // a separate copy of the last page
  EXPECT_EQ(cache.available_blocks(), 16);
  EXPECT_NE(cache.row(1, kBlock), cache.row(2, kBlock));
  EXPECT_EQ(cache.row(1, kBlock - 1), cache.row(2, kBlock - 1));
  cache.reset(1);
  EXPECT_EQ(cache.available_blocks(), 17);
}

// A sequence of any length holds no more pages than its window needs.
TEST(KvCache, OldBlocksReturnToThePool) {
  for (int64_t capacity : {1, 16, 63, 64, 65, 200}) {
    const int64_t most = KvCache::blocks_of_sequence(capacity);
    KvCache cache = make(1, capacity);
    EXPECT_EQ(cache.size(), most * kBlock);
    RandomStream random(3, RandomSite::test);
    while (cache.length(0) < 5 * capacity + 3 * kBlock) {
      const int64_t room = std::max(capacity - cache.length(0), kBlock - cache.length(0) % kBlock);
      const auto n = static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(room)));
      ASSERT_TRUE(cache.reserve(0, n)) << capacity << " after " << cache.length(0);
      std::set<int64_t> rows;  // rows that the first and the last new token see
      const int64_t first = std::max<int64_t>(0, cache.length(0) + 1 - capacity);
      cache.append(0, range(0, n));
      for (int64_t t = first; t < cache.length(0); ++t)
        EXPECT_TRUE(rows.insert(cache.row(0, t)).second);
    }
  }
}

// Layers with a short window need memory for the window, for one step, and for kBlock tokens that may be
// truncated.
TEST(KvCache, ShortWindowsTakeLessMemory) {
  constexpr int64_t kCapacity = 100 * kBlock;
  KvCache cache = make_windows(3, kCapacity);
  ASSERT_EQ(cache.classes(), 3u);
  const size_t classes[] = {cache.class_of(2), cache.class_of(0), cache.class_of(1)};
  EXPECT_EQ(cache.class_of(3), cache.class_of(0)) << "it reads the keys and values of that layer";
  EXPECT_FALSE(cache.keys(3));
  const int64_t blocks[] = {101, (100 + kBlock + kStep + kBlock - 1) / kBlock + 1,
                            (70 + kBlock + kStep + kBlock - 1) / kBlock + 1};
  int64_t bytes = 0;
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(classes[k], k);
    EXPECT_EQ(cache.available_blocks(k), 3 * blocks[k]);
    bytes += 2 * 3 * blocks[k] * kBlock * config().kv_dim() * 4;
  }
  EXPECT_EQ(cache.bytes(), bytes);
  const KvCache::Options options{.slots = 3, .capacity = kCapacity, .step = kStep};
  EXPECT_EQ(KvCache::bytes(windows_config(), options), bytes);
  EXPECT_EQ(KvCache::tokens_within(windows_config(), options, bytes), 3 * 101 * kBlock);
  const int64_t less = KvCache::tokens_within(windows_config(), options, bytes - 1);
  EXPECT_EQ(less, (3 * 101 - 1) * kBlock);
  for (int slot = 0; slot < 3; ++slot) {
    ASSERT_TRUE(cache.reserve(slot, kCapacity));  // computed one step at a time
    while (cache.length(slot) < kCapacity) {
      const int64_t n = std::min(kStep, kCapacity - cache.length(slot));
      ASSERT_TRUE(cache.reserve(slot, n));
      cache.append(slot, range(0, n));
      for (size_t k = 0; k < 3; ++k)
        EXPECT_LE(std::ssize(cache.pages(slot, k)), blocks[k]);
    }
    for (size_t k = 1; k < 3; ++k)
      EXPECT_LE(std::ssize(cache.pages(slot, k)), blocks[k]);
  }
  EXPECT_TRUE(cache.can_truncate(0, kCapacity - kBlock));
  EXPECT_FALSE(cache.truncate(0, kCapacity / 2));
  EXPECT_EQ(cache.length(0), kCapacity);
}

// The known prefix is the longest prefix whose windows are cached in every class.
TEST(KvCache, APrefixIsKnownWhereEveryClassHoldsItsWindow) {
  KvCache cache = make_windows(2, 40 * kBlock);
  const std::vector<int32_t> text = range(0, 30 * kBlock);
  const auto grow = [&](int slot, std::span<const int32_t> tokens) {
    for (size_t at = 0; at < tokens.size(); at += kStep) {
      const auto piece = tokens.subspan(at, std::min<size_t>(kStep, tokens.size() - at));
      ASSERT_TRUE(cache.reserve(slot, std::ssize(piece)));
      cache.append(slot, piece);
    }
  };
  grow(0, std::span(text).first(20 * kBlock + 5));
  EXPECT_EQ(cache.prospect(text).known, 20 * kBlock + 5);
  EXPECT_EQ(cache.prospect(std::span(text).first(20 * kBlock)).known, 20 * kBlock - 1);
  // The slot no longer holds the windows at the start of the text, but the memory still contains them.
  const int64_t early = cache.prospect(std::span(text).first(10 * kBlock)).known;
  EXPECT_TRUE(early == 0 || early == 10 * kBlock - 1) << early;
  EXPECT_EQ(cache.reuse(1, text), 20 * kBlock + 5);
  for (int64_t t = 20 * kBlock + 5 - 70; t < 20 * kBlock; ++t)
    EXPECT_EQ(cache.row(1, t, cache.class_of(1)), cache.row(0, t, cache.class_of(1)));
  EXPECT_NE(cache.row(1, 20 * kBlock, 1), cache.row(0, 20 * kBlock, 1)) << "a block in part is copied";
  cache.reset(0);
  cache.reset(1);
  // A long different text takes all memory of the short windows, and little memory of the long window.
  std::vector<int32_t> other = range(100000, 30 * kBlock);
  grow(0, other);
  EXPECT_EQ(cache.prospect(text).known, 0);
  EXPECT_EQ(cache.prospect(other).known, 30 * kBlock - 1);
  cache.reset(0);
  EXPECT_EQ(cache.reuse(0, text), 0);
  EXPECT_EQ(cache.length(0), 0);
}

// A toy layer whose state is the sum of its tokens.
TEST(KvCache, StatesAreKeptForEachSlot) {
  const ModelConfig c = test::make_config(
      {"", "llama", "{}", [](std::vector<LayerConfig>& layers) { layers[1].slot_state = 3; }});
  const KvCache::Options options{.slots = 3, .capacity = 200};
  KvCache cache(c, options, nullptr);
  EXPECT_EQ(cache.bytes(), KvCache::bytes(c, options));
  EXPECT_EQ(cache.bytes(), KvCache::bytes(c, cache.size(), DType::f32) + 4 * 3 * 4);
  EXPECT_FALSE(cache.state(0));
  const TensorView state = cache.state(1);
  EXPECT_EQ(state.rows(), 3);
  const auto of = [&](int slot) { return state.row<float>(slot)[2]; };
  const auto grow = [&](int slot, int64_t n) {
    const std::vector<int32_t> tokens = range(1, n);
    ASSERT_TRUE(cache.reserve(slot, n));
    cache.append(slot, tokens);
    state.row<float>(slot)[2] += static_cast<float>(std::accumulate(tokens.begin(), tokens.end(), 0));
  };
  grow(0, 3);
  grow(1, 100);
  EXPECT_EQ(of(0), 6);
  cache.copy(0, 2);
  grow(2, 1);
  EXPECT_EQ(of(2), 7);
  EXPECT_EQ(of(0), 6);
  EXPECT_FALSE(cache.truncate(1, 50));
  EXPECT_EQ(cache.length(1), 100);
  EXPECT_EQ(of(1), 5050);
  EXPECT_TRUE(cache.truncate(1, 100));
  EXPECT_EQ(of(1), 5050);
  EXPECT_TRUE(cache.truncate(1, 0));
  EXPECT_EQ(of(1), 0);
  cache.reset(0);
  EXPECT_EQ(of(0), 0);
  EXPECT_EQ(of(2), 7);
  EXPECT_EQ(cache.prospect(range(1, 60)).known, 0);
  EXPECT_EQ(cache.reuse(0, range(1, 60)), 0) << "keys and values are known, but the state after them is not";
}

TEST(KvCache, SequencesOfThePastAreFoundUntilTheirMemoryIsNeeded) {
  KvCache cache = make(2, 10 * kBlock, 12 * kBlock);
  const std::vector<int32_t> text = range(0, 5 * kBlock);
  ASSERT_TRUE(cache.reserve(0, 300));
  cache.append(0, std::span(text).first(300));
  cache.reset(0);
  EXPECT_EQ(cache.available_blocks(), 12);
  EXPECT_EQ(cache.prospect(text).known, 300);
  EXPECT_EQ(cache.prospect(std::span(text).first(200)).known, 199);
  EXPECT_EQ(cache.prospect(std::span(text).subspan(1)).known, 0);
  std::vector<int32_t> other = text;
  other[150] = -7;
  EXPECT_EQ(cache.prospect(other).known, 150);
  EXPECT_EQ(cache.prospect(other).blocks, 5);
  EXPECT_EQ(cache.reuse(0, other), 150);
  EXPECT_EQ(cache.available_blocks(), 9);         // two pages are shared, one is a partial copy
  EXPECT_EQ(cache.prospect(text).blocks, 5 - 2);  // the shared pages are already in use
  EXPECT_EQ(cache.prospect(text).known, 300);
  // Nine pages are left, of which four contain the rest of the text. The end of the text is evicted first.
  ASSERT_TRUE(cache.reserve(1, 7 * kBlock));
  EXPECT_EQ(cache.prospect(text).known, 4 * kBlock);
  ASSERT_TRUE(cache.reserve(1, 9 * kBlock));
  EXPECT_EQ(cache.prospect(text).known, 150);
}

TEST(KvCache, BlocksThatEndedEarlierGoFirst) {
  KvCache cache = make(1, 4 * kBlock, 6 * kBlock);
  const auto run = [&](int32_t first) {
    cache.reset(0);
    ASSERT_TRUE(cache.reserve(0, kBlock));
    cache.append(0, range(first, kBlock));
    cache.reset(0);
  };
  for (int32_t i = 0; i < 6; ++i)
    run(1000 * i);
  EXPECT_EQ(cache.reuse(0, range(0, kBlock + 1)), kBlock);  // uses the first page again
  cache.reset(0);
  run(7000);
  EXPECT_EQ(cache.prospect(range(0, kBlock + 1)).known, kBlock);
  EXPECT_EQ(cache.prospect(range(1000, kBlock + 1)).known, 0);
  EXPECT_EQ(cache.prospect(range(2000, kBlock + 1)).known, kBlock);
}

TEST(KvCache, Int8HasScales) {
  const ModelConfig c = config();
  const KvCache plain = make(1, 100), quantised = make(1, 100, 0, DType::i8);
  EXPECT_FALSE(plain.key_scales(1));
  for (const TensorView& scales : {quantised.key_scales(0), quantised.value_scales(1)}) {
    EXPECT_EQ(scales.rows(), quantised.size());
    EXPECT_EQ(scales.cols(), c.n_kv_head);
  }
  EXPECT_EQ(quantised.keys(0).dtype, DType::i8);
  EXPECT_EQ(quantised.bytes(), 2 * c.n_layer * quantised.size() * (c.kv_dim() + 4 * c.n_kv_head));
}

TEST(KvCache, Q4_0HasBlocksOf32) {
  const ModelConfig c = test::make_config({"", "llama", R"({"n_kv_head": 2, "n_embd": 128})"});
  const KvCache cache(c, {.capacity = 100, .dtype = DType::q4_0}, nullptr);
  EXPECT_EQ(cache.keys(0).dtype, DType::q4_0);
  EXPECT_EQ(cache.bytes(), 2 * c.n_layer * cache.size() * c.n_kv_head * 18);
  EXPECT_TRUE(
      test::names(test::error_of([] { make(1, 100, 0, DType::q4_0); }), {"q4_0", 32, "head_dim", 4, "int8"}));
}

TEST(KvCache, CountsItsMemoryAndRefusesTooMuch) {
  const ModelConfig c = config();
  // Two layers of keys and values for three slots of 100 tokens take two pages and a spare page each.
  EXPECT_EQ(make(3, 100).bytes(), 2 * 2 * 3 * (3 * kBlock) * c.kv_dim() * 4);
  EXPECT_EQ(KvCache::bytes(c, 100, DType::bf16), 2 * 2 * (2 * kBlock) * c.kv_dim() * 2);
  EXPECT_ERROR(make(2, 100, 2 * kBlock), ErrorCode::invalid_argument);  // less than one sequence may take
  EXPECT_THROW(make(1, int64_t{1} << 55), Error);
  EXPECT_THROW(make(1000000, int64_t{1} << 40), Error);
}

}  // namespace
}  // namespace gpt

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Rows of logits with many ties, and the selection request for each row.
struct Call {
  int64_t vocab_size;
  std::vector<float> logits;
  std::vector<SelectRow> rows;
  std::vector<ScoreChange> changes;
  std::vector<uint64_t> allowed;
  int64_t capacity = 0;
};

Call make_call(int64_t vocab_size, int64_t k, uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  Call call{.vocab_size = vocab_size, .capacity = k + 3};
  const int64_t words = (vocab_size + 63) / 64;
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t i = 0; i < vocab_size; ++i)
      call.logits.push_back(static_cast<float>(random.below(900)) / 32 - 10);
    SelectRow r{.row = row,
                .k = k,
                .log_sum = row % 2 == 0,
                .repetition_penalty = 1.3,
                .presence_penalty = 0.4,
                .frequency_penalty = 0.7};
    r.first_change = std::ssize(call.changes);
    for (int64_t id = row; row != 2 && id < vocab_size; id += 1 + static_cast<int64_t>(random.below(30)))
      call.changes.push_back({static_cast<int32_t>(id), static_cast<int32_t>(random.below(4)) - 1,
                              static_cast<double>(random.below(3))});
    r.changes = std::ssize(call.changes) - r.first_change;
    if (row == 4) r.allowed_row = 1;
    if (row != 2) r.scores_row = row;
    call.rows.push_back(r);
  }
  call.rows.push_back({.row = 4, .k = k, .log_sum = true});  // a row may have several requests
  for (int64_t word = 0; word < 2 * words; ++word)
    call.allowed.push_back(random.next_u64());
  return call;
}

std::vector<float> scores_of(const Call& call, const SelectRow& r) {
  const auto begin = call.logits.begin() + r.row * call.vocab_size;
  std::vector<float> scores(begin, begin + call.vocab_size);
  for (int64_t i = r.first_change; i < r.first_change + r.changes; ++i) {
    const ScoreChange& c = call.changes[static_cast<size_t>(i)];
    double x = static_cast<float>(scores[static_cast<size_t>(c.id)] + c.bias);
    if (c.count >= 0) x = x > 0 ? x / r.repetition_penalty : x * r.repetition_penalty;
    if (c.count > 0) x -= r.presence_penalty + r.frequency_penalty * c.count;
    scores[static_cast<size_t>(c.id)] = static_cast<float>(x);
  }
  const int64_t words = (call.vocab_size + 63) / 64;
  for (int64_t id = 0; r.allowed_row >= 0 && id < call.vocab_size; ++id) {
    const uint64_t word = call.allowed[static_cast<size_t>(r.allowed_row * words + id / 64)];
    if ((word & uint64_t{1} << (id % 64)) == 0) scores[static_cast<size_t>(id)] = -kInf;
  }
  return scores;
}

struct Found {
  std::vector<Selection> selections;
  std::vector<TokenScore> candidates;
  std::vector<float> scores;
};

Found run(const Call& call, Isa isa, int threads, HostDevice& device) {
  ThreadPool pool(threads);
  const KernelTable& kernels = kernel_table(isa);
  const Workspace workspace(kernels.select_candidates_scratch(call.vocab_size), threads);
  Found found;
  found.selections.resize(call.rows.size());
  found.candidates.resize(call.rows.size() * static_cast<size_t>(call.capacity));
  found.scores.resize(call.logits.size());
  kernels.select_candidates({device, pool, kernels, workspace.scratch()},
                            {.logits = make_view(call.logits.data(), {5, call.vocab_size}),
                             .rows = array_of(call.rows),
                             .changes = array_of(call.changes),
                             .allowed = array_of(call.allowed),
                             .scores = make_view(found.scores.data(), {5, call.vocab_size}),
                             .capacity = call.capacity,
                             .candidates = array_of(found.candidates),
                             .selections = array_of(found.selections)});
  return found;
}

Found run(const Call& call, Isa isa, int threads) {
  HostDevice device;
  const Found found = run(call, isa, threads, device);
  device.require_no_error();
  return found;
}

// An invalid row sets the error of the device, and no exception propagates through the op.
TEST(SelectCandidates, ImpossibleCountsSetTheErrorOfTheDevice) {
  for (const int64_t k : {-1, 66}) {
    Call call = make_call(65, 3, 1);
    call.rows[1].k = k;
    HostDevice device;
    run(call, best_isa(), 2, device);
    EXPECT_THROW(device.require_no_error(), Error) << k;
  }
}

TEST(SelectCandidates, AgreesWithSorting) {
  for (const int64_t vocab_size : {1, 5, 63, 64, 65, 700, 4000}) {
    for (const int64_t k : {0, 1, 2, 40, 64, 699, 1024, 1025, 4000}) {
      if (k > vocab_size) continue;
      const Call call = make_call(vocab_size, k, static_cast<uint64_t>(vocab_size + k));
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} of {}, {} threads", k, vocab_size, threads));
        const Found found = run(call, best_isa(), threads);
        for (size_t i = 0; i < call.rows.size(); ++i) {
          const SelectRow& r = call.rows[i];
          const std::vector<float> scores = scores_of(call, r);
          if (r.scores_row >= 0) {
            EXPECT_TRUE(
                std::equal(scores.begin(), scores.end(), found.scores.begin() + r.scores_row * vocab_size));
          }
          const Selection& s = found.selections[i];
          EXPECT_EQ(s.not_finite, -1);
          if (r.log_sum) {
            double sum = 0;
            for (int64_t id = 0; id < vocab_size; ++id)
              sum += std::exp(double{call.logits[static_cast<size_t>(r.row * vocab_size + id)]});
            EXPECT_NEAR(s.log_sum, std::log(sum), 1e-12);
          }
          std::vector<TokenScore> expected;
          if (k > 0) {
            std::vector<float> sorted = scores;
            std::sort(sorted.rbegin(), sorted.rend());
            for (int64_t id = 0; id < vocab_size; ++id) {
              const float score = scores[static_cast<size_t>(id)];
              if (score >= sorted[static_cast<size_t>(k - 1)])
                expected.push_back({static_cast<int32_t>(id), score});
            }
          }
          ASSERT_EQ(s.count, std::ssize(expected));
          const auto shown = static_cast<size_t>(std::min(s.count, call.capacity));
          for (size_t c = 0; c < shown; ++c) {
            const TokenScore& got = found.candidates[i * static_cast<size_t>(call.capacity) + c];
            ASSERT_EQ(got.id, expected[c].id);
            ASSERT_EQ(got.score, expected[c].score);
          }
        }
      }
    }
  }
}

TEST(SelectCandidates, NamesTheFirstLogitThatIsNotFinite) {
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    Call call = make_call(200, 4, 1);
    call.logits[200 + 130] = call.logits[200 + 150] = bad;
    const Found found = run(call, best_isa(), 1);
    EXPECT_EQ(found.selections[1].not_finite, 130);
    EXPECT_EQ(found.selections[0].not_finite, -1);
  }
}

}  // namespace

// Compares with the reference of the kernel table. The test AgreesWithSorting defines what the reference must
// return.
GPT_OP_CASES(select_candidates) {
  for (const int64_t k : {0, 7, 200}) {
    list.add(fmt::format("{} of 200", k), [=](OpFrame& f) {
      const Call call = make_call(200, k, 3);
      std::vector<Selection> selections(call.rows.size());
      std::vector<TokenScore> candidates(call.rows.size() * static_cast<size_t>(call.capacity));
      f.run(&KernelTable::select_candidates,
            {.logits = make_view(call.logits.data(), {5, 200}),
             .rows = array_of(call.rows),
             .changes = array_of(call.changes),
             .allowed = array_of(call.allowed),
             .scores = f.output_of(DType::f32, {5, 200}, {}, 8),
             .capacity = call.capacity,
             .candidates = array_of(candidates),
             .selections = array_of(selections)},
            f.kernels().select_candidates_scratch(200));
      double* out = f.output_doubles(2 * std::ssize(selections), {}).data;
      for (const Selection& s : selections) {
        *out++ = static_cast<double>(s.count);
        *out++ = s.log_sum;
      }
    });
  }
}

}  // namespace gpt::testing

#include "infer/beam.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/select.h"
#include "support/names.h"
#include "unit/infer/fake_decoder.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;

// Returns a decoder whose logits depend on the last id. Row a has the log-probabilities of the ids that
// follow a.
FakeDecoder chain(std::vector<std::vector<double>> table, int slots) {
  const auto vocab = static_cast<int64_t>(table.size());
  return FakeDecoder(vocab, 64, slots, false, [table](std::span<const int32_t> window, size_t) {
    std::vector<float> row;
    for (const double p : table[static_cast<size_t>(window.back())])
      row.push_back(static_cast<float>(std::log(p)));
    return row;
  });
}

struct Scored {
  Ids ids;
  double log_prob;
};

// Returns every continuation of the given length, best first. Ties are in lexicographic order.
std::vector<Scored> all_continuations(const FakeDecoder& model, const Ids& prompt, int64_t steps) {
  std::vector<Scored> all{{{}, 0}};
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Scored> longer;
    for (const Scored& s : all) {
      Ids ids = prompt;
      ids.insert(ids.end(), s.ids.begin(), s.ids.end());
      const std::vector<float> row = model.logits_of(ids);
      for (int32_t id = 0; id < model.vocab_size(); ++id) {
        longer.push_back({s.ids, s.log_prob + row[static_cast<size_t>(id)] - log_sum_exp(row)});
        longer.back().ids.push_back(id);
      }
    }
    all = std::move(longer);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Scored& a, const Scored& b) { return a.log_prob > b.log_prob; });
  return all;
}

// Beam search on whole sequences, without slots or a cache. The search uses all V candidates of each beam
// instead of the best `width` candidates, which does not change the result.
std::vector<Scored> naive_beams(const FakeDecoder& model, const Ids& prompt, int64_t width, int64_t steps,
                                ContextPolicy policy) {
  std::vector<Scored> beams{{{}, 0}};
  const auto n_ctx = static_cast<size_t>(model.n_ctx());
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Scored> proposals;
    for (const Scored& beam : beams) {
      Ids ids = prompt;
      ids.insert(ids.end(), beam.ids.begin(), beam.ids.end());
      std::span<const int32_t> view = ids;
      if (policy == ContextPolicy::crop && view.size() > n_ctx) view = view.last(n_ctx);
      const std::vector<float> row = model.logits_of(view);
      for (int32_t id = 0; id < model.vocab_size(); ++id) {
        proposals.push_back({beam.ids, beam.log_prob + (row[static_cast<size_t>(id)] - log_sum_exp(row))});
        proposals.back().ids.push_back(id);
      }
    }
    std::stable_sort(proposals.begin(), proposals.end(),
                     [](const Scored& a, const Scored& b) { return a.log_prob > b.log_prob; });
    proposals.resize(std::min(proposals.size(), static_cast<size_t>(width)));
    beams = std::move(proposals);
  }
  return beams;
}

TEST(Beam, FindsWhatGreedyMisses) {
  // After 0, id 1 has 0.6 and id 2 has 0.4. After 1, the best id has 0.4. After 2, id 3 has 0.9. The sequence
  // with 0.36 beats the one with 0.24.
  const std::vector<std::vector<double>> table{
      {1e-9, 0.6, 0.4, 1e-9}, {0.4, 0.3, 0.2, 0.1}, {0.05, 0.02, 0.03, 0.9}, {0.25, 0.25, 0.25, 0.25}};
  FakeDecoder decoder = chain(table, 2);
  const auto greedy = beam_search(decoder, Ids{0}, {.width = 1, .steps = 2});
  ASSERT_EQ(greedy.size(), 1u);
  EXPECT_EQ(greedy[0].ids, (Ids{1, 0}));
  EXPECT_NEAR(greedy[0].log_prob, std::log(0.24), 1e-6);
  const auto beams = beam_search(decoder, Ids{0}, {.width = 2, .steps = 2});
  ASSERT_EQ(beams.size(), 2u);
  EXPECT_EQ(beams[0].ids, (Ids{2, 3}));
  EXPECT_NEAR(beams[0].log_prob, std::log(0.36), 1e-6);
  EXPECT_EQ(beams[1].ids, (Ids{1, 0}));
  EXPECT_EQ(beams[0].score, beams[0].log_prob);
  EXPECT_EQ(beams[0].finish, FinishReason::length);
}

TEST(Beam, WideEnoughItIsExhaustive) {
  FakeDecoder decoder(3, 64, 81);
  const Ids prompt{2, 1};
  const auto beams = beam_search(decoder, prompt, {.width = 81, .steps = 4});
  const auto all = all_continuations(decoder, prompt, 4);
  ASSERT_EQ(beams.size(), 81u);
  for (size_t i = 0; i < beams.size(); ++i) {
    EXPECT_EQ(beams[i].ids, all[i].ids) << i;
    EXPECT_NEAR(beams[i].log_prob, all[i].log_prob, 1e-12);
  }
}

TEST(Beam, AgreesWithTheNaiveSearchForAnyWidthAndChunk) {
  for (const int64_t width : {1, 2, 3, 5, 8}) {
    for (const auto policy : {ContextPolicy::stop, ContextPolicy::crop, ContextPolicy::slide}) {
      for (const int64_t chunk : {1, 4, 512}) {
        // The number of slots equals the number of beams, so children of other beams overwrite parents.
        FakeDecoder decoder(6, policy == ContextPolicy::stop ? 64 : 7, static_cast<int>(width), true);
        const Ids prompt{1, 5, 3, 3};
        const auto beams = beam_search(
            decoder, prompt, {.width = width, .steps = 12, .context = policy, .prefill_chunk = chunk});
        const auto expected = naive_beams(decoder, prompt, width, 12, policy);
        ASSERT_EQ(beams.size(), expected.size());
        for (size_t i = 0; i < beams.size(); ++i) {
          EXPECT_EQ(beams[i].ids, expected[i].ids) << width << " " << i;
          EXPECT_EQ(beams[i].log_prob, expected[i].log_prob);
        }
      }
    }
  }
}

TEST(Beam, TiesGoToTheBetterParentThenTheLowerId) {
  FakeDecoder decoder(3, 64, 4, false,
                      [](std::span<const int32_t>, size_t) { return std::vector<float>(3, 1.0f); });
  const auto beams = beam_search(decoder, Ids{0}, {.width = 4, .steps = 2});
  ASSERT_EQ(beams.size(), 4u);
  EXPECT_EQ(beams[0].ids, (Ids{0, 0}));
  EXPECT_EQ(beams[1].ids, (Ids{0, 1}));
  EXPECT_EQ(beams[2].ids, (Ids{0, 2}));
  EXPECT_EQ(beams[3].ids, (Ids{1, 0}));
}

TEST(Beam, AnEndedBeamStaysAndCompetes) {
  // After 0, the end (2) has 0.4 and id 1 has 0.6. After 1, each id has 1/3, so longer beams fall below 0.4.
  const double third = 1.0 / 3;
  const std::vector<std::vector<double>> table{
      {1e-9, 0.6, 0.4}, {third, third, third}, {third, third, third}};
  FakeDecoder decoder = chain(table, 2);
  const auto plain = beam_search(decoder, Ids{0}, {.width = 2, .steps = 3});
  EXPECT_EQ(plain[0].ids.size(), 3u);  // without EOS all beams continue
  const auto beams = beam_search(decoder, Ids{0}, {.width = 2, .steps = 3, .eos_ids = {2}});
  ASSERT_EQ(beams.size(), 2u);
  EXPECT_EQ(beams[0].ids, (Ids{2}));
  EXPECT_EQ(beams[0].finish, FinishReason::eos);
  EXPECT_NEAR(beams[0].log_prob, std::log(0.4), 1e-6);
  EXPECT_EQ(beams[1].ids, (Ids{1, 0, 1}));  // 0.6 / 3 · 0.6, more than 0.6 / 9
  EXPECT_NEAR(beams[1].log_prob, std::log(0.12), 1e-6);
}

TEST(Beam, EndsEarlyWhenEveryBeamHasEnded) {
  FakeDecoder decoder(3, 64, 2);
  const auto beams = beam_search(decoder, Ids{0}, {.width = 2, .steps = 50, .eos_ids = {0, 1, 2}});
  ASSERT_EQ(beams.size(), 2u);
  EXPECT_EQ(beams[1].ids.size(), 1u);
  EXPECT_EQ(decoder.tokens_fed, 1);
}

TEST(Beam, LengthPenaltyDividesByAPowerOfTheLength) {
  // The sequence 0 → end (2) has 0.4, and 0 → 1 → 1 has 0.6 · 0.5. Per token, sqrt(0.3) = 0.55 is better than
  // 0.4.
  const std::vector<std::vector<double>> table{{1e-9, 0.6, 0.4}, {0.1, 0.5, 0.4}, {0.4, 0.3, 0.3}};
  FakeDecoder decoder = chain(table, 3);
  BeamOptions options{.width = 3, .steps = 2, .eos_ids = {2}};
  EXPECT_EQ(beam_search(decoder, Ids{0}, options)[0].ids, (Ids{2}));
  options.length_penalty = 1;
  const auto beams = beam_search(decoder, Ids{0}, options);
  EXPECT_EQ(beams[0].ids, (Ids{1, 1}));
  EXPECT_NEAR(beams[0].score, std::log(0.3) / 2, 1e-6);
  EXPECT_NEAR(beams[0].log_prob, std::log(0.3), 1e-6);
}

TEST(Beam, FewerBeamsThanWidthWhereTheVocabularyIsSmall) {
  FakeDecoder decoder(2, 64, 5);
  EXPECT_EQ(beam_search(decoder, Ids{0}, {.width = 5, .steps = 1}).size(), 2u);
  EXPECT_EQ(beam_search(decoder, Ids{0}, {.width = 5, .steps = 2}).size(), 4u);
  EXPECT_EQ(beam_search(decoder, Ids{0}, {.width = 5, .steps = 3}).size(), 5u);
  EXPECT_TRUE(beam_search(decoder, Ids{0}, {.width = 5, .steps = 0}).empty());
}

TEST(Beam, StopsWhenTheContextIsFull) {
  FakeDecoder decoder(4, 6, 2);
  const auto beams = beam_search(decoder, Ids{0, 1, 2}, {.width = 2, .steps = 50});
  EXPECT_EQ(beams[0].ids.size(), 4u);
  EXPECT_EQ(beams[0].finish, FinishReason::context);
  EXPECT_EQ(beam_search(decoder, Ids{0, 1, 2}, {.width = 2, .steps = 4})[0].finish, FinishReason::length);
}

TEST(Beam, RejectsBadInput) {
  FakeDecoder decoder(4, 6, 2);
  EXPECT_ERROR(beam_search(decoder, Ids{0}, {.width = 0}), ErrorCode::invalid_argument);
  EXPECT_ERROR(beam_search(decoder, Ids{0}, {.width = 3}), ErrorCode::invalid_argument);
  EXPECT_ERROR(beam_search(decoder, Ids{0}, {.width = 2, .steps = -1}), ErrorCode::invalid_argument);
  EXPECT_ERROR(beam_search(decoder, Ids{0}, {.width = 2, .length_penalty = NAN}),
               ErrorCode::invalid_argument);
  EXPECT_ERROR(beam_search(decoder, Ids{0}, {.width = 2, .prefill_chunk = 0}), ErrorCode::invalid_argument);
  EXPECT_ERROR(beam_search(decoder, Ids{0}, {.width = 2, .context = ContextPolicy::slide}),
               ErrorCode::invalid_argument);
  EXPECT_THROW(beam_search(decoder, Ids{}, {.width = 2}), Error);
  EXPECT_THROW(beam_search(decoder, Ids{4}, {.width = 2}), Error);
  EXPECT_THROW(beam_search(decoder, Ids(7, 0), {.width = 2}), Error);
}

}  // namespace
}  // namespace gpt

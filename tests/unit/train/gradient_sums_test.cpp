#include "train/gradient_sums.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "kernels/kernel_table.h"
#include "support/isas.h"
#include "support/small_models.h"
#include "support/team.h"
#include "train/param_groups.h"

namespace gpt::test {
namespace {

TEST(Buckets, CoverEveryElementOnce) {
  for (const int64_t elements : {int64_t{1}, int64_t{16384}, int64_t{16385}, int64_t{3'300'000}}) {
    for (const int processes : {1, 2, 3, 8, 100}) {
      const Buckets buckets(elements, processes);
      int64_t end = 0, largest = 0;
      for (int64_t b = 0; b < buckets.count(); ++b) {
        EXPECT_EQ(buckets.bucket(b).begin, end);
        for (int rank = 0; rank < processes; ++rank) {
          const ElementRange piece = buckets.shard(b, rank);
          ASSERT_EQ(piece.begin, end) << elements << " " << processes;
          ASSERT_GE(piece.end, piece.begin);
          EXPECT_TRUE(piece.end == elements || piece.end % kSumBlock == 0);
          end = piece.end;
        }
        EXPECT_EQ(buckets.bucket(b).end, end);
      }
      EXPECT_EQ(end, elements);
      for (int rank = 0; rank < processes; ++rank)
        largest = std::max(largest, buckets.elements_of(rank));
      EXPECT_GE(largest * processes, elements);
    }
  }
}

// Some parameters are larger than a bucket, and others share a bucket.
ParamTable large_table() {
  return ParamTable(
      make_config({.name = "large",
                   .family = "gpt2",
                   .keys = R"({"n_layer": 2, "vocab_size": 40000, "n_embd": 48, "n_head": 3})"}));
}

// Every trained element is assigned to one rank, and so is every layer matrix. No range extends beyond a
// parameter.
TEST(Divisions, ByMatrixCoverWhatIsTrainedOnce) {
  ParamTable table = large_table();
  const int frozen = table.find(Role::up_proj_weight, 0);
  table.set_trainable(frozen, false);
  const ParamLayout layout(table);
  for (const int processes : {1, 2, 3, 8, 50}) {
    const ShardMap parts = shard_by_matrix(table, processes);
    ASSERT_EQ(std::ssize(parts), processes);
    std::vector<int> owners(static_cast<size_t>(layout.elements));
    std::vector<std::vector<int64_t>> pieces(static_cast<size_t>(table.count()));
    for (const std::vector<ElementRange>& ranges : parts) {
      ASSERT_FALSE(ranges.empty());
      for (const ElementRange& range : ranges) {
        for (int64_t i = range.begin; i < range.end; ++i)
          ++owners[static_cast<size_t>(i)];
        for (int id = 0; range.size() > 0 && id < table.count(); ++id) {
          const int64_t at = layout.offset[static_cast<size_t>(id)];
          if (at < 0 || range.begin < at || range.begin >= at + table[id].size()) continue;
          EXPECT_LE(range.end, at + table[id].size());
          pieces[static_cast<size_t>(id)].push_back(range.size());
        }
      }
    }
    for (int id = 0; id < table.count(); ++id) {
      const int64_t at = layout.offset[static_cast<size_t>(id)];
      if (id == frozen) continue;
      for (int64_t i = at; i < at + table[id].size(); ++i)
        ASSERT_EQ(owners[static_cast<size_t>(i)], 1) << table[id].name;
      if (param_group(table, id) == ParamGroup::matrix) {
        EXPECT_EQ(std::ssize(pieces[static_cast<size_t>(id)]), 1) << table[id].name;
      }
    }
  }
}

float gradient(int64_t shard, int64_t i) {
  return static_cast<float>(std::sin(static_cast<double>(shard * 1'000'003 + i)));
}

TEST(GradientSums, AreAddedInTheOrderOfShards) {
  const ParamTable table = large_table();
  const int64_t elements = param_buffer_elements(table);
  ASSERT_GT(Buckets(elements, 2).count(), 1);
  constexpr int64_t kShards = 6;
  std::vector<float> expected(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i) {
    float sum = gradient(0, i);
    for (int64_t shard = 1; shard < kShards; ++shard)
      sum += gradient(shard, i);
    expected[static_cast<size_t>(i)] = sum;
  }
  using Keeps = GradientSums::Keeps;
  for (int which = 0; which < 12; ++which) {
    const int processes = std::array{1, 2, 3, 6}[static_cast<size_t>(which / 3)];
    const Keeps keeps = std::array{Keeps::all, Keeps::own, Keeps::own_memory}[static_cast<size_t>(which % 3)];
    Team(processes).run([&](Communicator& member) {
      ThreadPool pool(1);
      const Backend own = host_backend(pool, best_isa());
      const ParamBuffer grads(table, DType::f32, "gradients");
      const int64_t rounds = kShards / processes;
      GradientSums sums(table, grads, rounds, keeps, DType::f32, member, own);
      for (int64_t round = 0; round < rounds; ++round) {
        for (int64_t i = 0; i < elements; ++i)
          grads.all().as<float>()[i] = gradient(round * processes + member.rank(), i);
        const GradReadyHook announce = sums.sending(round);
        if (announce) {  // from the last parameter to the first, like the backward pass
          for (int id = table.count() - 1; id >= 0; --id)
            announce(id, id, {});
        }
        sums.finish_round(round);
      }
      if (keeps != Keeps::all) sums.gather(grads.all(), 1, sums.shard_map(), "gathering");
      EXPECT_EQ(std::memcmp(grads.all().data, expected.data(), expected.size() * sizeof(float)), 0)
          << processes << " processes, rank " << member.rank() << ", case " << which;
    });
  }
}

// With a thousand ranks, each rank sends about as many messages as with four. Message memory grows more
// slowly than the number of ranks.
TEST(Buckets, BucketsGrowWithTheNumberOfProcesses) {
  constexpr int64_t kElements = int64_t{1} << 30;
  const auto messages = [](int processes) { return Buckets(kElements, processes).count() * (processes - 1); };
  EXPECT_EQ(Buckets(kElements, 4).bucket(0).size(), 262144);
  EXPECT_EQ(Buckets(kElements, 4).in_flight(), 16);
  EXPECT_LT(messages(1000), 1.4 * static_cast<double>(messages(4)));
  EXPECT_EQ(Buckets(kElements, 8).in_flight() * Buckets(kElements, 8).bucket(0).size(), 16 * 262144);
  EXPECT_EQ(Buckets(kElements, 1000).in_flight(), 2);
  EXPECT_EQ(Buckets(1'000'000, 8).bucket(0).size(), 262144) << "a small model is still sent in parts";
}

// There are more buckets than can be in flight.
ParamTable larger_table() {
  return ParamTable(
      make_config({.name = "larger",
                   .family = "gpt2",
                   .keys = R"({"n_layer": 1, "vocab_size": 180000, "n_embd": 48, "n_head": 3})"}));
}

// A sent gradient is rounded once, and a sum that is sent to all ranks is rounded again. Each rounding has an
// error of up to half a unit in the last place of bf16, which is at most 2^-8 of the value. Each fp32
// addition has an error of 2^-24.
TEST(GradientSums, RoundedMessagesAreWithinHalfAUnitOfBf16) {
  constexpr double kHalfUnit = 0x1p-8, kAddition = 0x1p-22;
  const ParamTable table = larger_table();
  const int64_t elements = param_buffer_elements(table);
  const Buckets buckets(elements, 3);
  ASSERT_GT(buckets.count(), 2 * buckets.in_flight());
  std::vector<float> numbers;
  for (int64_t i = 0; i < 4099; ++i)
    numbers.push_back(gradient(0, i));
  const auto number = [&](int64_t rank, int64_t step, int64_t i) {
    return numbers[static_cast<size_t>((i + 100 * rank + 10 * step) % std::ssize(numbers))];
  };
  using Keeps = GradientSums::Keeps;
  for (const int processes : {2, 3}) {
    for (const Keeps keeps : {Keeps::all, Keeps::own}) {
      std::vector<std::vector<float>> sums_of(static_cast<size_t>(processes));
      Team(processes).run([&](Communicator& member) {
        ThreadPool pool(1);
        const Backend own = host_backend(pool, best_isa());
        const ParamBuffer grads(table, DType::f32, "gradients");
        GradientSums sums(table, grads, 1, keeps, DType::bf16, member, own);
        auto* const g = grads.all().as<float>();
        for (const int64_t step : {0, 1}) {
          for (int64_t i = 0; i < elements; ++i)
            g[i] = number(member.rank(), step, i);
          const GradReadyHook announce = sums.sending(0);
          for (int id = table.count() - 1; id >= 0; --id)
            announce(id, id, {});
          sums.finish_round(0);
        }
        if (keeps != Keeps::all) sums.gather(grads.all(), 1, sums.shard_map(), "gathering");
        sums_of[static_cast<size_t>(member.rank())].assign(g, g + elements);
      });
      const std::vector<float>& sums = sums_of[0];
      for (const std::vector<float>& others : sums_of)
        ASSERT_EQ(std::memcmp(others.data(), sums.data(), sums.size() * sizeof(float)), 0);
      int64_t rounded = 0;
      for (int owner = 0; owner < processes; ++owner) {
        for (const ElementRange& piece : Buckets(elements, processes).of(owner)) {
          for (int64_t i = piece.begin; i < piece.end; ++i) {
            double sum = 0, sent = 0;
            for (int64_t rank = 0; rank < processes; ++rank) {
              const double x = number(rank, 1, i);
              sum += x;
              sent += rank == owner ? 0 : std::abs(x);
            }
            const double found = sums[static_cast<size_t>(i)];
            const double back = keeps == Keeps::all ? std::abs(sum) + kHalfUnit * sent : 0;
            ASSERT_LE(std::abs(found - sum), kHalfUnit * (sent + back) + kAddition) << i;
            rounded += found == static_cast<double>(static_cast<float>(sum)) ? 0 : 1;
          }
        }
      }
      EXPECT_GT(rounded, elements / 2);
    }
  }
}

// The memory is a piece of 16 received buckets and 32 sent buckets, with 2 bytes per element. The size of the
// memory does not depend on the model size.
TEST(GradientSums, RoundedMessagesTakeAFixedAmountOfMemory) {
  const int64_t bucket = Buckets(1 << 30, 2).bucket(0).size();
  for (const int64_t elements : {1 << 25, 1 << 30})
    EXPECT_EQ(GradientSums::bytes(elements, DType::f32, DType::bf16, 1, 2, 0),
              2 * (16 * bucket / 2 + 32 * bucket));
}

}  // namespace
}  // namespace gpt::test

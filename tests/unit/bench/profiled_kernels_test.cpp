#include "kernels/profiled_kernels.h"

#include <gtest/gtest.h>

#include <array>

#include "support/arrays.h"

namespace gpt {
namespace {

class ProfiledKernelsTest : public testing::Test {
 protected:
  void add_once() {
    kernels_.add(
        ctx_,
        {.out = make_view(out_.data(), {4}), .a = make_view(a_.data(), {4}), .b = make_view(a_.data(), {4})});
  }

  ThreadPool pool_{1};
  ProfiledKernels kernels_{kernel_table(Isa::ref)};
  HostDevice device_;
  ExecContext ctx_{device_, pool_, kernels_, {}};
  std::array<float, 4> a_{1, 2, 3, 4}, out_{};
};

TEST_F(ProfiledKernelsTest, HasEveryOpAndTheNameOfTheInnerTable) {
  const KernelTable& table = kernels_;
  EXPECT_EQ(table.name, "ref");
#define GPT_CHECK_ENTRY(name, Args)  \
  EXPECT_NE(kernels_.name, nullptr); \
  EXPECT_NE(kernels_.name, kernels_.inner.name);
  GPT_FOR_EACH_OP(GPT_CHECK_ENTRY)
#undef GPT_CHECK_ENTRY
}

TEST_F(ProfiledKernelsTest, ComputesWhatTheInnerTableComputesAndCountsCalls) {
  EXPECT_TRUE(kernels_.times().empty());
  add_once();
  add_once();
  EXPECT_EQ(out_, (std::array<float, 4>{2, 4, 6, 8}));
  const std::vector<OpTime> times = kernels_.times();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_STREQ(times[0].op, "add");
  EXPECT_EQ(times[0].calls, 2);
  EXPECT_GE(times[0].seconds, 0);
}

TEST_F(ProfiledKernelsTest, SortsByTime) {
  add_once();
  float x = 1;
  kernels_.clamp(ctx_, {.x = make_view(&x, {1}), .limit = 2});
  kernels_.counters = {};
  add_once();
  kernels_.clamp(ctx_, {.x = make_view(&x, {1}), .limit = 2});
  for (ProfiledKernels::Counter& counter : kernels_.counters) {
    if (counter.calls > 0) counter.nanoseconds = 10;
  }
  kernels_.counters.back().calls = 1;
  kernels_.counters.back().nanoseconds = 1000;
  const std::vector<OpTime> times = kernels_.times();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_STREQ(times[0].op, "ema");
  EXPECT_DOUBLE_EQ(times[0].seconds, 1e-6);
  EXPECT_STREQ(times[1].op, "add");
}

TEST_F(ProfiledKernelsTest, CountsTheOperationsOfProductsAndAttention) {
  float y[6] = {}, x[8] = {}, w[12] = {};
  kernels_.linear_forward(ctx_,
                          {.y = make_view(y, {2, 3}), .x = make_view(x, {2, 4}), .w = make_view(w, {3, 4})});
  EXPECT_EQ(kernels_.times()[0].flops, 2 * 2 * 3 * 4);
  // Two sequences of 2 and 1 tokens have 3 and 1 pairs of query and key. There is 1 head of width 2.
  const AttentionShape shape{.n_head = 1, .n_kv_head = 1, .head_dim = 2, .scale = 1, .max_q = 2, .max_kv = 2};
  const std::vector<AttentionSeq> seqs = {{.q_start = 0, .q_len = 2, .kv_len = 2},
                                          {.q_start = 2, .q_len = 1, .kv_len = 1, .kv_start = 2}};
  float q[6] = {}, out[6] = {};
  const Workspace workspace(kernels_.attention_scratch(shape, 2, 2, false, DType::f32), 1);
  kernels_.clear();
  kernels_.attention_forward({device_, pool_, kernels_, workspace.scratch()}, {.shape = shape,
                                                                               .seqs = test::array_of(seqs),
                                                                               .out = make_view(out, {3, 2}),
                                                                               .q = make_view(q, {3, 2}),
                                                                               .k = make_view(q, {3, 2}),
                                                                               .v = make_view(q, {3, 2})});
  EXPECT_EQ(kernels_.times()[0].flops, 2 * 2 * 4 * 2);
}

TEST_F(ProfiledKernelsTest, StartsAgainFromNothing) {
  add_once();
  kernels_.clear();
  EXPECT_TRUE(kernels_.times().empty());
}

}  // namespace
}  // namespace gpt

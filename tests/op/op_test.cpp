#include <gtest/gtest.h>

#include <set>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

struct OpOnIsa {
  RegisteredOp op;
  Isa isa;
};

void PrintTo(const OpOnIsa& p, std::ostream* out) {
  *out << p.op.op << " on " << isa_name(p.isa);
}

std::vector<OpOnIsa> ops_on_isas() {
  std::vector<OpOnIsa> all;
  for (const RegisteredOp& op : registered_ops()) {
    for (Isa isa : kIsas) {
      if (isa <= best_isa()) all.push_back({op, isa});
    }
  }
  return all;
}

class OpTest : public ::testing::TestWithParam<OpOnIsa> {
 protected:
  void SetUp() override { GetParam().op.cases(list_); }

  std::string seed(const OpCase& c) const { return GetParam().op.op + " " + c.name; }
  OpFrame play(const OpCase& c, const OpFrame::Setup& setup) const {
    OpFrame frame(setup, seed(c));
    c.body(frame);
    return frame;
  }
  OpFrame reference(const OpCase& c) const {
    return play(c, {.kernels = kernel_table(Isa::ref), .dtype = DType::f64});
  }
  const KernelTable& table() const { return kernel_table(GetParam().isa); }

  OpCaseList list_;
};

TEST_P(OpTest, AgreesWithTheReferenceInDouble) {
  ASSERT_FALSE(list_.cases.empty());
  for (const OpCase& c : list_.cases) {
    SCOPED_TRACE(seed(c));
    const OpFrame want = reference(c);
    for (int64_t misalign : {0, 1, 7}) {
      const OpFrame got = play(c, {.kernels = table(), .misalign = misalign});
      EXPECT_EQ(got.difference(want), "") << "misaligned by " << misalign;
    }
  }
}

TEST_P(OpTest, LeavesOtherMemoryAlone) {
  for (const OpCase& c : list_.cases) {
    SCOPED_TRACE(seed(c));
    EXPECT_EQ(play(c, {.kernels = table(), .threads = 2}).damage(), "");
    play(c, {.kernels = table(), .guards = false});
  }
}

TEST_P(OpTest, BitsDoNotDependOnTheThreads) {
  for (const OpCase& c : list_.cases) {
    SCOPED_TRACE(seed(c));
    const OpFrame one = play(c, {.kernels = table()});
    for (int threads : {2, 3, 7}) {
      EXPECT_EQ(play(c, {.kernels = table(), .threads = threads}).bit_difference(one), "")
          << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, ::testing::ValuesIn(ops_on_isas()), [](const auto& p) {
  return p.param.op.op + "_" + std::string(isa_name(p.param.isa));
});

TEST(OpRegistry, EveryOpHasCases) {
  std::set<std::string> registered;
  for (const RegisteredOp& op : registered_ops())
    registered.insert(op.op);
#define GPT_CHECK_REGISTERED(name, Args) \
  EXPECT_TRUE(registered.contains(#name)) << "no GPT_OP_CASES(" #name ")";
  GPT_FOR_EACH_OP(GPT_CHECK_REGISTERED)
#undef GPT_CHECK_REGISTERED
}

}  // namespace
}  // namespace gpt::testing

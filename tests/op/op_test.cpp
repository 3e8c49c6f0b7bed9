#include <gtest/gtest.h>

#include <set>

#include "op/op_case.h"
#include "support/isas.h"

namespace gpt::testing {
namespace {

struct OpOnIsa {
  RegisteredOp op;
  Isa isa;
  DType act;
};

void PrintTo(const OpOnIsa& p, std::ostream* out) {
  *out << p.op.op << " on " << isa_name(p.isa) << " in " << dtype_name(p.act);
}

std::vector<OpOnIsa> ops_on_isas() {
  std::vector<OpOnIsa> all;
  for (const RegisteredOp& op : registered_ops()) {
    for (const Isa isa : available_isas()) {
      for (DType act : {DType::f32, DType::bf16, DType::f16}) {
        all.push_back({op, isa, act});
      }
    }
  }
  return all;
}

class OpTest : public ::testing::TestWithParam<OpOnIsa> {
 protected:
  void SetUp() override {
    GetParam().op.cases(list_);
    ASSERT_FALSE(list_.cases.empty());
  }

  std::string seed(const OpCase& c) const { return GetParam().op.op + " " + c.name; }
  OpFrame play(const OpCase& c, const OpFrame::Setup& setup) const {
    OpFrame frame(setup, seed(c));
    c.body(frame);
    return frame;
  }
  OpFrame::Setup setup() const { return {.kernels = kernel_table(GetParam().isa), .act = GetParam().act}; }
  OpFrame reference(const OpCase& c) const {
    return play(c, {.kernels = kernel_table(Isa::ref), .dtype = DType::f64, .act = GetParam().act});
  }
  bool narrow() const { return GetParam().act != DType::f32; }
  // Fewer runs suffice in two cases. Narrow activations take the same paths through memory and threads as
  // fp32, and scalar code does not depend on alignment.
  bool needs_few() const { return narrow() || GetParam().isa == Isa::ref; }
  // Returns true if the case has no activations, because a narrow dtype then repeats the fp32 run.
  bool repeats_f32(const OpFrame& frame) const { return narrow() && !frame.has_activations(); }

  OpCaseList list_;
};

TEST_P(OpTest, AgreesWithTheReferenceInDouble) {
  for (const OpCase& c : list_.cases) {
    SCOPED_TRACE(seed(c));
    const OpFrame want = reference(c);
    if (repeats_f32(want)) continue;
    for (int64_t misalign : needs_few() ? std::vector<int64_t>{1} : std::vector<int64_t>{0, 1, 7}) {
      OpFrame::Setup here = setup();
      here.misalign = misalign;
      EXPECT_EQ(play(c, here).difference(want), "") << "misaligned by " << misalign;
    }
  }
}

TEST_P(OpTest, LeavesOtherMemoryAlone) {
  for (const OpCase& c : list_.cases) {
    SCOPED_TRACE(seed(c));
    OpFrame::Setup here = setup();
    here.threads = 2;
    const OpFrame frame = play(c, here);
    EXPECT_EQ(frame.damage(), "");
    if (repeats_f32(frame)) continue;
    here.threads = 1;
    here.guards = false;
    play(c, here);
  }
}

TEST_P(OpTest, BitsDoNotDependOnTheThreads) {
  for (const OpCase& c : list_.cases) {
    SCOPED_TRACE(seed(c));
    const OpFrame one = play(c, setup());
    if (repeats_f32(one)) continue;
    for (int threads : needs_few() ? std::vector{3} : std::vector{2, 3, 7}) {
      OpFrame::Setup here = setup();
      here.threads = threads;
      EXPECT_EQ(play(c, here).bit_difference(one), "") << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, ::testing::ValuesIn(ops_on_isas()), [](const auto& p) {
  const std::string name = p.param.op.op + "_" + std::string(isa_name(p.param.isa));
  return p.param.act == DType::f32 ? name : name + "_" + std::string(dtype_name(p.param.act));
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

// Tests that ops run with the scratch memory that their kernel table requests, and refuse to run with less.

#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "kernels/kernel_table.h"
#include "kernels/quant.h"
#include "support/arrays.h"
#include "support/isas.h"

namespace gpt {
namespace {

class ScratchTest : public ::testing::TestWithParam<Isa> {
 protected:
  using Run = std::function<void(const ExecContext&)>;

  TensorView floats(std::initializer_list<int64_t> shape) {
    const TensorView like = make_view(nullptr, DType::f32, shape);
    memory_.emplace_back(static_cast<size_t>(like.size()) * sizeof(float), "test");
    return make_view(memory_.back().data(), DType::f32, shape);
  }

  // Runs the op with exactly the requested scratch memory, and with one byte less in each of the two regions.
  void check(const char* op, ScratchNeed need, const Run& run) {
    SCOPED_TRACE(op);
    const Workspace workspace(need, pool_.size());
    Scratch scratch = workspace.scratch();
    scratch.shared_bytes = need.shared;
    scratch.per_thread_bytes = need.per_thread;
    EXPECT_TRUE(succeeds(run, scratch));
    for (int64_t* region : {&scratch.shared_bytes, &scratch.per_thread_bytes}) {
      if (*region == 0) continue;
      --*region;
      EXPECT_FALSE(succeeds(run, scratch)) << "a byte less of scratch memory";
      ++*region;
    }
  }
  bool succeeds(const Run& run, const Scratch& scratch) {
    HostDevice device;
    run({device, pool_, kernels(), scratch});
    try {
      device.require_no_error();
    } catch (const Error&) {
      return false;
    }
    return true;
  }
  const KernelTable& kernels() const { return kernel_table(GetParam()); }

 private:
  ThreadPool pool_{1};
  std::deque<Buffer> memory_;
};

TEST_P(ScratchTest, IsAsLargeAsTheTableSays) {
  constexpr int64_t kRows = 70, kOut = 40, kIn = 64;
  const KernelTable& k = kernels();
  const TensorView x = floats({kRows, kIn}), y = floats({kRows, kOut}), w = floats({kOut, kIn}),
                   row = floats({kRows});
  const auto linear = [&](DType dtype, bool backward) {
    return k.linear_scratch(kRows, kOut, kIn, dtype, backward);
  };
  check("linear_forward", linear(DType::f32, false),
        [&](const ExecContext& ctx) { k.linear_forward(ctx, {.y = y, .x = x, .w = w}); });
  std::vector<BlockQ8> blocks(kOut * kIn / kQuantBlock);
  check("linear_forward with blocks", linear(DType::q8_0, false), [&](const ExecContext& ctx) {
    k.linear_forward(ctx, {.y = y, .x = x, .w = make_view(blocks.data(), DType::q8_0, {kOut, kIn})});
  });
  // The two gradients share one scratch request, which is the larger of their needs.
  const Workspace both(linear(DType::f32, true), 1);
  const Run input = [&](const ExecContext& ctx) { k.linear_backward_input(ctx, {.dx = x, .dy = y, .w = w}); };
  const Run weight = [&](const ExecContext& ctx) {
    k.linear_backward_weight(ctx, {.dw = w, .dy = y, .x = x, .accumulate = false});
  };
  for (const Run& run : {input, weight}) {
    EXPECT_TRUE(succeeds(run, both.scratch()));
    if (both.bytes() > 0) {
      EXPECT_FALSE(succeeds(run, {}));
    }
  }
  check("norm_backward", k.norm_backward_scratch(kRows, kIn, DType::f32), [&](const ExecContext& ctx) {
    k.norm_backward(ctx, {.kind = NormKind::rms, .dx = x, .dout = x, .x = x, .rstd = row});
  });
}

struct Types {
  DType compute, activations;
};

// Runs the three matmuls of a shape, each with the scratch memory that is planned for it.
class Products {
 public:
  Products(const KernelTable& k, Types types, int64_t rows, int64_t out, int64_t in, std::byte* zeros)
      : k_(k), types_(types), rows_(rows), out_(out), in_(in), zeros_(zeros) {}

  void run(bool packs) {
    PackedMatrix forward, backward;
    if (packs && !(make(forward, false) && make(backward, true))) return;
    const TensorView x = view(types_.activations, rows_, in_), y = view(types_.activations, rows_, out_),
                     w = view(DType::f32, out_, in_), no_w;
    run(false, [&](const ExecContext& ctx) {
      k_.linear_forward(ctx, {.y = y,
                              .x = x,
                              .w = packs ? no_w : w,
                              .packed = packs ? forward : PackedMatrix{},
                              .compute = types_.compute,
                              .act = Activation::relu});
    });
    run(true, [&](const ExecContext& ctx) {
      k_.linear_backward_input(ctx, {.dx = x,
                                     .dy = y,
                                     .w = packs ? no_w : w,
                                     .packed = packs ? backward : PackedMatrix{},
                                     .act = Activation::relu,
                                     .pre = x});
      k_.linear_backward_weight(ctx,
                                {.dw = w, .dy = y, .x = x, .accumulate = false, .compute = types_.compute});
    });
  }

 private:
  TensorView view(DType dtype, int64_t rows, int64_t cols) const {
    return make_view(zeros_, dtype, {rows, cols});
  }
  bool make(PackedMatrix& packed, bool transposed) const {
    packed = {.data = zeros_, .dtype = types_.compute, .out = out_, .in = in_, .transposed = transposed};
    return k_.packed_bytes(types_.compute, out_, in_, transposed) > 0;
  }
  template <class Run>
  void run(bool backward, const Run& run) {
    const Workspace planned(k_.linear_scratch(rows_, out_, in_, types_.compute, backward), 1);
    run(ExecContext{test::host(), pool_, k_, planned.scratch()});
  }

  const KernelTable& k_;
  ThreadPool pool_{1};
  Types types_;
  int64_t rows_, out_, in_;
  std::byte* zeros_;  // shared by all operands, because the results do not matter
};

// The scratch memory of a matmul depends on the rows of a micro-tile, the blocks of k and the columns of a
// task. The scratch memory must never exceed the planned size.
TEST_P(ScratchTest, IsEnoughForProductsOfAnyShape) {
  if (GetParam() == Isa::ref) GTEST_SKIP() << "the reference kernels need no scratch memory";
  struct Shape {
    int64_t out, in;
    std::vector<int64_t> rows;
  };
  const std::vector<int64_t> any = {1,  4,  5,  9,  13, 16, 17, 24, 25,  28,  31,  32,  33, 36,
                                    37, 48, 60, 61, 64, 65, 96, 97, 157, 160, 161, 192, 193};
  // The shapes use whole blocks of k. For few rows these are the longest blocks. The widest shapes have tasks
  // with the maximum number of columns.
  const Shape shapes[] = {{8, 96, any},          {384, 1024, any},           {1024, 384, any},
                          {8, 17000, {1, 2, 4}}, {6144, 1024, {28, 32, 64}}, {8192, 2048, {32, 64, 160}}};
  constexpr Types kTypes[] = {{DType::f32, DType::f32},
                              {DType::f32, DType::bf16},
                              {DType::bf16, DType::bf16},
                              {DType::f16, DType::f32}};
  const Buffer zeros(size_t{80} << 20, "test");
  for (const auto& [out, in, all_rows] : shapes)
    for (const int64_t rows : all_rows)
      for (const Types& types : kTypes)
        for (const bool packs : {false, true}) {
          SCOPED_TRACE(testing::Message() << rows << " rows, " << out << " from " << in);
          Products(kernels(), types, rows, out, in, zeros.data()).run(packs);
        }
}

TEST_P(ScratchTest, OfAttentionToo) {
  constexpr int64_t kTokens = 50, kWidth = 24;
  const KernelTable& k = kernels();
  const TensorView q = floats({kTokens, kWidth}), out = floats({kTokens, kWidth}), lse = floats({kTokens, 1});
  const AttentionSeq seq{.q_start = 0, .q_len = kTokens, .kv_len = kTokens};
  for (const int64_t window : {int64_t{0}, int64_t{7}}) {
    const AttentionShape shape{.n_head = 1,
                               .n_kv_head = 1,
                               .head_dim = kWidth,
                               .scale = 0.2,
                               .window = window,
                               .max_q = kTokens,
                               .max_kv = kTokens};
    const int64_t seen = window > 0 ? window : kTokens;
    check("attention_forward", k.attention_scratch(shape, kTokens, seen, false, DType::f32),
          [&](const ExecContext& ctx) {
            k.attention_forward(
                ctx, {.shape = shape, .seqs = test::array_of(seq), .out = out, .q = q, .k = q, .v = q});
          });
    check("attention_backward", k.attention_scratch(shape, kTokens, seen, true, DType::f32),
          [&](const ExecContext& ctx) {
            const TensorView d = floats({kTokens, kWidth});
            k.attention_backward(ctx, {.shape = shape,
                                       .seqs = test::array_of(seq),
                                       .dq = d,
                                       .dk = d,
                                       .dv = d,
                                       .dout = out,
                                       .out = out,
                                       .q = q,
                                       .k = q,
                                       .v = q,
                                       .lse = lse});
          });
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, ScratchTest, ::testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace gpt

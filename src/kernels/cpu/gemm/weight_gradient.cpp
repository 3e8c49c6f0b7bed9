#include "kernels/cpu/gemm/gemm.h"

#include <atomic>
#include <thread>

#include "kernels/cpu/gemm/layout.h"

// Computes dw[m,n] = A B with A = dy^T [m,k] and B = x [k,n]. k is the number of rows of dy and x, and n is
// the number of inputs.
//
//   for chunks of k, with as many blocks as fit into kPackedXWords
//     for blocks of kc words along k         in parallel: tasks that pack x
//       pack x [kc,n] into micro-panels
//     for tasks of mc rows and nc columns    in parallel: tasks that multiply, after all packing
//       for blocks of kc words along k
//         pack dy^T [mc,kc] into micro-panels of mr rows, or by rows; add its row sums to dbias
//         for panels of nr columns
//           for mr rows
//             micro-kernel: dw[mr,nr] += dy^T[mr,kc] x[kc,nr]
//
//   packed x       blocks of k | panels | [kc words][nr]        shared scratch, in chunks of kPackedXWords
//   packed dy^T    micro-panels | [kc words][mr, rounded up to 4]   scratch of the task's thread

namespace gpt::gemm {
namespace {

constexpr int64_t kPackedXWords = 2 << 20;  // 8 MiB of x are packed at a time, to fit in L3 cache
constexpr int64_t kMc = 96;                 // a block [kMc,kc] of dy takes 192 KiB of L2 cache
constexpr int64_t kNc = 384;
constexpr int64_t kWideNc = 1536;  // used with AMX, where packing dy again would take longer than the
                                   // products
constexpr int64_t kMinTasks = 8;
constexpr int64_t kPackRows =
    64;  // rows of x or dy that are packed at a time for all panels, while the next rows are prefetched
constexpr int64_t kPackTask = 128;  // rows of x in a packing task

// Returns the width of a packed panel. Panels are packed four columns at a time, whatever the number of rows
// of the micro-kernel. With 6 rows, panels are therefore a third wider than necessary.
int64_t panel_width(int64_t rows) {
  return round_up(rows, 4);
}

// Lets multiplication tasks wait until all packing tasks are done. Waiting cannot deadlock, because packing
// tasks have lower numbers, so ThreadPool has already started them.
class Latch {
 public:
  Latch(int64_t* count, int64_t tasks) : count_(*count), tasks_(tasks) { count_.store(0); }
  void count_down() { count_.fetch_add(1, std::memory_order_release); }
  void wait() {
    for (int spins = 0; count_.load(std::memory_order_acquire) < tasks_; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
  }

 private:
  std::atomic_ref<int64_t> count_;
  int64_t tasks_;
};

class WeightGradient {
 public:
  WeightGradient(const ExecContext& ctx, Isa isa, const LinearBackwardWeightArgs& args)
      : ctx_(ctx),
        args_(args),
        layout_(layout_of(isa, args.compute)),
        kernels_(layout_.kernels),
        k_(args.dy.rows()),
        k_words_(layout_.k_words(k_)),
        kc_(layout_.kc(k_words_)),
        panels_(layout_.panels(args.dw.cols())) {
    const int64_t m = args.dw.rows(), width = panels_ * kernels_.nr, rows_down = ceil_div(m, kMc);
    const bool wider = kernels_.prefetch_next && rows_down * ceil_div(width, 2 * kNc) >= kMinTasks;
    const int64_t widest = a_by_rows() ? kWideNc : wider ? 2 * kNc : kNc;
    nc_panels_ = ceil_div(panels_, ceil_div(width, widest));
    n_tasks_ = ceil_div(panels_, nc_panels_);
    const int64_t down = std::max(rows_down, ceil_div(kMinTasks, n_tasks_));
    mc_ = round_up(ceil_div(m, down), kernels_.mr);
    m_tasks_ = ceil_div(m, mc_);
  }

  void run() const {
    GPT_OP_REQUIRE(ctx_, mc_ <= kMc && a_offset(mc_, kc_) * kWordBytes <= ctx_.scratch.per_thread_bytes);
    const int64_t n_blocks = std::max<int64_t>(1, ceil_div(k_words_, kc_));
    const int64_t depth =
        std::max<int64_t>(1, kPackedXWords / std::max<int64_t>(1, kc_ * panels_ * kernels_.nr));
    for (int64_t first = 0; first < n_blocks; first += depth)
      multiply_blocks(first, std::min(depth, n_blocks - first));
  }

 private:
  // True if the micro-kernel requires A by rows instead of in micro-panels.
  bool a_by_rows() const { return kernels_.pack_rows_transposed != nullptr; }
  int64_t a_row_words() const { return kc_ + kRowPadding; }
  // Returns the offset of row i in the packed dy^T of a block of `words` words. i must be a multiple of mr.
  int64_t a_offset(int64_t i, int64_t words) const {
    return a_by_rows() ? i * a_row_words() : i / kernels_.mr * panel_width(kernels_.mr) * words;
  }

  struct KBlock {
    int64_t from, words;  // range of words along k
    int64_t row, rows;    // rows of x and dy
  };
  KBlock k_block(int64_t index) const {
    const int64_t from = index * kc_;
    const int64_t words = std::min(kc_, k_words_ - from);
    const int64_t row = from * kernels_.k_pack;
    return {from, words, row, std::min(words * kernels_.k_pack, k_ - row)};
  }

  uint32_t* packed_x() const { return ctx_.scratch.all<uint32_t>() + 16; }  // after the counter of the latch

  // slot: index of the block of k among the packed blocks.
  uint32_t* x_panel(int64_t slot, int64_t words, int64_t panel) const {
    return packed_x() + (slot * kc_ * panels_ + panel * words) * kernels_.nr;
  }

  void multiply_blocks(int64_t first, int64_t n_blocks) const {
    const int64_t pieces = std::max<int64_t>(1, ceil_div(kc_ * kernels_.k_pack, kPackTask));
    const int64_t n_pack = pieces * n_blocks;
    Latch packed(ctx_.scratch.all<int64_t>(), n_pack);
    ctx_.pool.parallel_for(n_pack + m_tasks_ * n_tasks_, [&](int64_t task, int thread) {
      if (task < n_pack) {
        pack_x(first + task / pieces, task / pieces, task % pieces * kPackTask);
        packed.count_down();
      } else {
        packed.wait();
        multiply(first, n_blocks, task - n_pack, thread);
      }
    });
  }

  // Packs rows [from, from + kPackTask) of a block of k.
  void pack_x(int64_t index, int64_t slot, int64_t from) const {
    const KBlock b = k_block(index);
    const int64_t end = std::min(b.rows, from + kPackTask);
    for (int64_t l = from; l < end; l += kPackRows) {
      for (int64_t s = 0; s < panels_; ++s) {
        uint32_t* panel = x_panel(slot, b.words, s);
        kernels_.pack_panel(layout_.format,
                            {.src = element(args_.x, b.row + l, s * kernels_.nr),
                             .type = args_.x.dtype,
                             .ld = args_.x.ld,
                             .k_contiguous = false,
                             .count = std::min(kernels_.nr, args_.dw.cols() - s * kernels_.nr),
                             .k = std::min(kPackRows, end - l),
                             .width = kernels_.nr,
                             .dst = panel + l / kernels_.k_pack * kernels_.nr});
      }
    }
  }

  void multiply(int64_t first, int64_t n_blocks, int64_t task, int thread) const {
    const int64_t row = task % m_tasks_ * mc_;
    const int64_t rows = std::min(mc_, args_.dw.rows() - row);
    const int64_t panel = task / m_tasks_ * nc_panels_;
    const int64_t end = std::min(panels_, panel + nc_panels_);
    auto* a = ctx_.scratch.thread<uint32_t>(thread);
    for (int64_t i = 0; i < n_blocks; ++i) {
      const KBlock b = k_block(first + i);
      const bool accumulate = args_.accumulate || first + i > 0;
      pack_dy(b, row, rows, a, args_.dbias && panel == 0, accumulate);
      for (int64_t s = panel; s < end; ++s)
        multiply_panel(b, row, rows, a, s, x_panel(i, b.words, s), accumulate);
    }
  }

  void multiply_panel(const KBlock& b, int64_t row, int64_t rows, const uint32_t* a, int64_t panel,
                      const uint32_t* x, bool accumulate) const {
    const int64_t col = panel * kernels_.nr;
    MicroKernelArgs t{.rows = 0,
                      .cols = std::min(kernels_.nr, args_.dw.cols() - col),
                      .k = b.words,
                      .a = nullptr,
                      .a_row = a_by_rows() ? a_row_words() : 1,
                      .a_k = 1,
                      .prefetch = nullptr,
                      .prefetch_stride = 0,
                      .prefetch_rows = 1,
                      .b = x,
                      .b_type = DType::f32,
                      .c = nullptr,
                      .ldc = args_.dw.ld,
                      .bias = nullptr,
                      .accumulate = accumulate};
    for (int64_t i = 0; i < rows; i += kernels_.mr) {
      t.rows = std::min(kernels_.mr, rows - i);
      t.a = a + a_offset(i, b.words);
      if (!a_by_rows()) t.a_k = panel_width(t.rows);
      // Two consecutive micro-tiles together prefetch the next panel; each of them prefetches one line per
      // word of k.
      const int64_t half = i / kernels_.mr % 2 * (kernels_.nr / 2);
      t.prefetch = x + b.words * (kernels_.nr + half);
      t.c = args_.dw.row<float>(row + i) + col;
      kernels_.micro_kernel(t);
    }
  }

  // Packs columns of dy as rows of A, and adds their sums over the block to dbias.
  void pack_dy(const KBlock& b, int64_t row, int64_t rows, uint32_t* dst, bool bias, bool accumulate) const {
    float sums[kMc] = {};
    for (int64_t l = 0; l < b.rows; l += kPackRows) {
      for (int64_t i = 0; i < rows; i += kernels_.mr) {
        const int64_t n = std::min(kernels_.mr, rows - i), word = l / kernels_.k_pack;
        PackPanelArgs p{.src = element(args_.dy, b.row + l, row + i),
                        .type = args_.dy.dtype,
                        .ld = args_.dy.ld,
                        .k_contiguous = false,
                        .count = n,
                        .k = std::min(kPackRows, b.rows - l),
                        .sums = bias ? sums + i : nullptr};
        if (a_by_rows()) {
          p.width = a_row_words();
          p.dst = dst + a_offset(i, b.words) + word;
          kernels_.pack_rows_transposed(p);
        } else {
          p.width = panel_width(n);
          p.dst = dst + a_offset(i, b.words) + word * p.width;
          kernels_.pack_panel(layout_.format, p);
        }
      }
    }
    if (!bias) return;
    float* db = args_.dbias.as<float>() + row;
    for (int64_t i = 0; i < rows; ++i)
      db[i] = accumulate ? db[i] + sums[i] : sums[i];
  }

  const ExecContext& ctx_;
  const LinearBackwardWeightArgs& args_;
  Layout layout_;
  const Kernels& kernels_;
  int64_t k_, k_words_, kc_;
  int64_t panels_;               // number of panels of x
  int64_t mc_, m_tasks_;         // rows of a task; number of tasks along the rows of dw
  int64_t nc_panels_, n_tasks_;  // panels of a task; number of tasks along the columns of dw
};

}  // namespace

void weight_gradient(const ExecContext& ctx, Isa isa, const LinearBackwardWeightArgs& args) {
  if (args.dw.size() == 0) return;
  GPT_OP_REQUIRE(ctx,
                 ctx.scratch.fits(weight_gradient_scratch(args.dy.rows(), args.dw.rows(), args.dw.cols())));
  WeightGradient(ctx, isa, args).run();
}

ScratchNeed weight_gradient_scratch(int64_t rows, int64_t out, int64_t in) {
  const int64_t k = round_up(rows, 16);
  const int64_t width = in + kMaxNr;
  const int64_t kc = std::min(k, kMaxKc);
  const int64_t packed_x = std::min(k * width, std::max(kPackedXWords, kc * width));
  const int64_t rows_of_dw = std::min(kMc, round_up(out, kMaxMr));
  return {.shared = (16 + packed_x) * kWordBytes,
          .per_thread = ceil_div(rows_of_dw, kMinMr) * panel_width(kMinMr) * (kc + kRowPadding) * kWordBytes};
}

}  // namespace gpt::gemm

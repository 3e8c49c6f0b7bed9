#include "kernels/cpu/gemm/weights.h"

#include <atomic>
#include <thread>

#include "kernels/cpu/gemm/layout.h"

namespace gpt::gemm {
namespace {

constexpr int64_t kPanelUnits = 2 << 20;  // of x packed at a time: 8 MiB, for the third-level cache
constexpr int64_t kTileRows = 96;         // by a block of k: 192 KiB of dy in the second-level cache
constexpr int64_t kTileCols = 384;
constexpr int64_t kWideTileCols = 1536;  // where the products take less time than packing dy again
constexpr int64_t kMinTasks = 8;
constexpr int64_t kPackRows = 64;   // packed at a time, strip after strip, while the next ones are fetched
constexpr int64_t kPackTask = 128;  // rows of x

// Tasks that others wait for. A thread takes tasks in order, so whoever waits knows that all of these have
// been taken by threads that do not wait.
class Gate {
 public:
  Gate(int64_t* count, int64_t tasks) : count_(*count), tasks_(tasks) { count_.store(0); }
  void pass() { count_.fetch_add(1, std::memory_order_release); }
  void wait() {
    for (int spins = 0; count_.load(std::memory_order_acquire) < tasks_; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
  }

 private:
  std::atomic_ref<int64_t> count_;
  int64_t tasks_;
};

// dw[m,n] = A B with A = dy^T, B = x; k are the rows of both. B is packed once by all threads, A by each task
// for itself.
class ColumnMultiplier {
 public:
  ColumnMultiplier(const ExecContext& ctx, Isa isa, const LinearBackwardWeightArgs& args)
      : ctx_(ctx),
        args_(args),
        layout_(layout_of(isa, args.compute)),
        kernels_(layout_.kernels),
        k_(args.dy.rows()),
        units_(layout_.units(k_)),
        block_(layout_.block(units_)),
        strips_(layout_.strips(args.dw.cols())) {
    const int64_t m = args.dw.rows(), width = strips_ * kernels_.nr, rows_down = ceil_div(m, kTileRows);
    const bool wider = kernels_.fetch_ahead && rows_down * ceil_div(width, 2 * kTileCols) >= kMinTasks;
    const int64_t widest = rows_of_a() ? kWideTileCols : wider ? 2 * kTileCols : kTileCols;
    tile_strips_ = ceil_div(strips_, ceil_div(width, widest));
    n_strips_ = ceil_div(strips_, tile_strips_);
    const int64_t down = std::max(rows_down, ceil_div(kMinTasks, n_strips_));
    tile_rows_ = round_up(ceil_div(m, down), kernels_.mr);
    n_rows_ = ceil_div(m, tile_rows_);
  }

  void run() const {
    const int64_t n_blocks = std::max<int64_t>(1, ceil_div(units_, block_));
    const int64_t depth =
        std::max<int64_t>(1, kPanelUnits / std::max<int64_t>(1, block_ * strips_ * kernels_.nr));
    for (int64_t first = 0; first < n_blocks; first += depth)
      panel(first, std::min(depth, n_blocks - first));
  }

 private:
  // Whether tiles want dy as rows along k, not as strips.
  bool rows_of_a() const { return kernels_.pack_columns_as_rows != nullptr; }
  int64_t row_of_a() const { return block_ + kPadding; }

  struct Block {
    int64_t from, units;  // of k
    int64_t row, rows;    // of x and dy
  };
  Block block(int64_t index) const {
    const int64_t from = index * block_;
    const int64_t units = std::min(block_, units_ - from);
    const int64_t row = from * kernels_.per_unit;
    return {from, units, row, std::min(units * kernels_.per_unit, k_ - row)};
  }

  uint32_t* packed_x() const { return ctx_.scratch.all<uint32_t>() + 16; }  // behind the gate's counter

  // Strip by strip, block by block, counted from the panel's first block.
  uint32_t* strip_of_x(int64_t block_in_panel, int64_t units, int64_t strip) const {
    return packed_x() + (block_in_panel * block_ * strips_ + strip * units) * kernels_.nr;
  }

  void panel(int64_t first, int64_t n_blocks) const {
    const int64_t pieces = std::max<int64_t>(1, ceil_div(block_ * kernels_.per_unit, kPackTask));
    const int64_t n_pack = pieces * n_blocks;
    Gate packed(ctx_.scratch.all<int64_t>(), n_pack);
    ctx_.pool.parallel_for(n_pack + n_rows_ * n_strips_, [&](int64_t task, int thread) {
      if (task < n_pack) {
        pack_x(first + task / pieces, task / pieces, task % pieces * kPackTask);
        packed.pass();
      } else {
        packed.wait();
        multiply(first, n_blocks, task - n_pack, thread);
      }
    });
  }

  // Rows [from, from + kPackTask) of a block.
  void pack_x(int64_t index, int64_t block_in_panel, int64_t from) const {
    const Block b = block(index);
    const int64_t end = std::min(b.rows, from + kPackTask);
    for (int64_t l = from; l < end; l += kPackRows) {
      for (int64_t s = 0; s < strips_; ++s) {
        uint32_t* strip = strip_of_x(block_in_panel, b.units, s);
        kernels_.pack(layout_.form, {.src = element(args_.x, b.row + l, s * kernels_.nr),
                                     .type = args_.x.dtype,
                                     .ld = args_.x.ld,
                                     .k_contiguous = false,
                                     .count = std::min(kernels_.nr, args_.dw.cols() - s * kernels_.nr),
                                     .k = std::min(kPackRows, end - l),
                                     .width = kernels_.nr,
                                     .dst = strip + l / kernels_.per_unit * kernels_.nr});
      }
    }
  }

  void multiply(int64_t first, int64_t n_blocks, int64_t task, int thread) const {
    const int64_t row = task % n_rows_ * tile_rows_;
    const int64_t rows = std::min(tile_rows_, args_.dw.rows() - row);
    const int64_t strip = task / n_rows_ * tile_strips_;
    const int64_t end = std::min(strips_, strip + tile_strips_);
    auto* a = ctx_.scratch.thread<uint32_t>(thread);
    for (int64_t i = 0; i < n_blocks; ++i) {
      const Block b = block(first + i);
      const bool add = args_.accumulate || first + i > 0;
      pack_dy(b, row, rows, a, args_.dbias && strip == 0, add);
      for (int64_t s = strip; s < end; ++s)
        multiply_strip(b, row, rows, a, s, strip_of_x(i, b.units, s), add);
    }
  }

  void multiply_strip(const Block& b, int64_t row, int64_t rows, const uint32_t* a, int64_t strip,
                      const uint32_t* x, bool add) const {
    const int64_t col = strip * kernels_.nr;
    for (int64_t i = 0; i < rows; i += kernels_.mr) {
      const int64_t n = std::min(kernels_.mr, rows - i);
      // Every tile fetches a line per unit: two of them the next strip.
      const int64_t half = i / kernels_.mr % 2 * (kernels_.nr / 2);
      kernels_.tile({.rows = n,
                     .cols = std::min(kernels_.nr, args_.dw.cols() - col),
                     .k = b.units,
                     .a = a + i * (rows_of_a() ? row_of_a() : b.units),
                     .a_row = rows_of_a() ? row_of_a() : 1,
                     .a_unit = rows_of_a() ? 1 : round_up(n, 4),
                     .next = x + b.units * (kernels_.nr + half),
                     .next_row = 0,
                     .next_rows = 1,
                     .b = x,
                     .b_type = DType::f32,
                     .c = args_.dw.row<float>(row + i) + col,
                     .ldc = args_.dw.ld,
                     .bias = nullptr,
                     .add = add});
    }
  }

  // Columns of dy as rows of A; their sums over the block go to the bias on the way.
  void pack_dy(const Block& b, int64_t row, int64_t rows, uint32_t* dst, bool bias, bool add) const {
    float sums[kTileRows] = {};
    for (int64_t l = 0; l < b.rows; l += kPackRows) {
      for (int64_t i = 0; i < rows; i += kernels_.mr) {
        const int64_t n = std::min(kernels_.mr, rows - i), unit = l / kernels_.per_unit;
        PackArgs p{.src = element(args_.dy, b.row + l, row + i),
                   .type = args_.dy.dtype,
                   .ld = args_.dy.ld,
                   .k_contiguous = false,
                   .count = n,
                   .k = std::min(kPackRows, b.rows - l),
                   .sums = bias ? sums + i : nullptr};
        if (rows_of_a()) {
          p.width = row_of_a();
          p.dst = dst + i * p.width + unit;
          kernels_.pack_columns_as_rows(p);
        } else {
          p.width = round_up(n, 4);
          p.dst = dst + i * b.units + unit * p.width;
          kernels_.pack(layout_.form, p);
        }
      }
    }
    if (!bias) return;
    float* db = args_.dbias.as<float>() + row;
    for (int64_t i = 0; i < rows; ++i)
      db[i] = add ? db[i] + sums[i] : sums[i];
  }

  const ExecContext& ctx_;
  const LinearBackwardWeightArgs& args_;
  Layout layout_;
  const Kernels& kernels_;
  int64_t k_, units_, block_;
  int64_t strips_;                  // of x
  int64_t tile_rows_, n_rows_;      // of a task; tasks down dw
  int64_t tile_strips_, n_strips_;  // of a task; tasks across dw
};

}  // namespace

void multiply_columns(const ExecContext& ctx, Isa isa, const LinearBackwardWeightArgs& args) {
  if (args.dw.size() > 0) ColumnMultiplier(ctx, isa, args).run();
}

ScratchNeed column_scratch(int64_t rows, int64_t out, int64_t in) {
  const int64_t k = round_up(rows, 16);
  const int64_t width = in + kMaxWidth;
  const int64_t block = std::min(k, kMaxBlock);
  const int64_t panel = std::min(k * width, std::max(kPanelUnits, block * width));
  return {.shared = (16 + panel) * kUnitBytes,
          .per_thread = std::min(kTileRows, round_up(out, kMaxRows)) * (block + kPadding) * kUnitBytes};
}

}  // namespace gpt::gemm

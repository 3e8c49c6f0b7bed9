#include "kernels/cpu/gemm/gemm.h"

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/gemm/layout.h"
#include "kernels/cpu/streaming.h"
#include "kernels/quant.h"

// Computes Y = A B for few or many rows of A, with B packed or not, including bias and activation:
//
//   for tasks of mc rows and nc columns of Y        in parallel
//     for blocks of kc words along k
//       pack A [mc,kc] by rows, unless it can be read in place
//       for panels of nr columns
//         get B [kc,nr]: a packed panel is used directly, or widened into scratch if its elements are 16-bit;
//                        unpacked B is packed into scratch, after dequantization if it is quantized
//         for mr rows
//           micro-kernel: C[mr,nr] += A[mr,kc] B[kc,nr]
//           after the last block of k: bias, activation, conversion to Y
//
//            kc                   nr nr nr ...             nc
//         +------+---            +--+--+--                +-----+---
//     mr  |      |             kc|  |  |              mc  |     |        C is Y itself if Y is fp32 and there
//     mr  |  A   |               |  B  |                  |  C  |        is no activation, else scratch
//     ... |      |               |  |  |                  |     |
//         +------+---            +--+--+--                +-----+---
//
// Reading B dominates in two cases: for up to kFewRows rows of A with a packed B, and for an unpacked B that
// is contiguous along k. In these cases, the loop over panels is the outer loop and the loop over blocks of k
// is the inner loop, so that B is read in memory order.

namespace gpt::gemm {
namespace {

constexpr int64_t kMc = 192;            // a block [kMc,kc] of A takes 384 KiB of L2 cache
constexpr int64_t kMinMc = 48;          // with fewer rows per task, reading B repeatedly would cost too much
constexpr int64_t kNc = 384;            // columns of a task; C is kept in scratch if there are several blocks
                                        // of k
constexpr int64_t kMinTasks = 16;       // enough tasks for 2 threads (and nearly for 7) to finish at the same
                                        // time
constexpr int64_t kBytesOfB = 2 << 20;  // bytes of B that stay in L3 cache while all rows of A are processed
constexpr int64_t kPrefetchTiles = 4;
constexpr int64_t kL2Words = 1 << 20;  // up to this total size, A, B and C fit in L2 cache and are not
                                       // prefetched
constexpr int64_t kPackedAWords = kMaxMr * (kMaxKc + kRowPadding);  // words of packed A in a thread's scratch
constexpr int64_t kBlockRows = 64;     // number of quantized rows that are dequantized at a time
constexpr int64_t kTaskCycles = 8192;  // minimum cost of a task; scheduling it takes about 200 cycles
// Maximum number of words of C in a micro-tile.
constexpr int64_t kTileWords = std::max(kMaxMr * kMaxNr, kUnpackedRows* kUnpackedColumns);

// Splits C into tasks, which are blocks of mc rows and nc_panels * nr columns. The split depends only on the
// shape.
struct TaskGrid {
  int64_t mc, m_tasks;
  int64_t nc_panels, n_tasks;

  TaskGrid(const Layout& layout, int64_t m, int64_t n, int64_t k_words) {
    const int64_t panels = layout.panels(n);
    const int64_t bytes = panels * layout.kernels.nr * k_words * kWordBytes;
    const int64_t widest = ceil_div(n, kNc);  // narrower tasks would read A too often
    int64_t across = k_words > layout.kc(k_words) ? widest : std::min(ceil_div(bytes, kBytesOfB), widest);
    int64_t down = ceil_div(m, kMc);
    if (down * across < kMinTasks) down = std::min(ceil_div(m, kMinMc), ceil_div(kMinTasks, across));
    const int64_t cycles = std::max<int64_t>(m, 4) * panels * k_words * 2;
    const int64_t tasks = std::clamp<int64_t>(cycles / kTaskCycles, 1, kMinTasks);
    if (down * across < tasks) across = ceil_div(tasks, down);
    mc = round_up(ceil_div(m, down), layout.kernels.mr);
    m_tasks = ceil_div(m, mc);
    nc_panels = ceil_div(panels, std::min(across, panels));
    n_tasks = ceil_div(panels, nc_panels);
  }
};

#ifdef GPT_HAVE_SIMD
const RowKernels& row_kernels(Isa isa) {
  return isa >= Isa::avx512 ? avx512_row_kernels() : avx2_row_kernels();
}
#endif

class Gemm {
 public:
  Gemm(const ExecContext& ctx, Isa isa, const GemmArgs& p)
      : ctx_(ctx),
        p_(p),
        unpacked_b_(reads_unpacked_b(isa, p)),
        layout_(layout_for(isa, p, unpacked_b_)),
        kernels_(layout_.kernels),
        k_(p.a.cols()),
        k_words_(layout_.k_words(k_)),
        kc_(layout_.kc(k_words_)),
        k_blocks_(std::max<int64_t>(1, ceil_div(k_words_, kc_))),
        streams_b_(((p.packed && p.y.rows() <= kFewRows) || (unpacked_b_ && k_contiguous(p))) &&
                   p.y.rows() * (k_words_ + kRowPadding) <= kPackedAWords),
        a_row_words_((streams_b_ ? k_words_ : kc_) + kRowPadding),
        a_in_place_(can_read_a_in_place()),
        c_is_y_(p.y.dtype == DType::f32 && !p.act),
        prefetches_next_(!unpacked_b_ && !streams_b_ && kernels_.prefetch_next &&
                         p.y.size() + (p.y.rows() + p.y.cols()) * k_words_ > kL2Words),
        prefetch_distance_(streams_b_ && p.packed ? streaming_distance(isa) : 0),
        grid_(layout_, p.y.rows(), p.y.cols(), k_words_) {
#ifdef GPT_HAVE_SIMD
    if (p.act) act_ = &drivers::act_kernels(row_kernels(isa).f32, *p.act);
#endif
  }

  void run() const {
    GPT_OP_REQUIRE(ctx_, scratch_words() * kWordBytes <= ctx_.scratch.per_thread_bytes);
    const auto task = [this](int64_t task, int thread) {
      // In a lower triangle, the last rows have the most work, so their tasks start first.
      const int64_t down = task % grid_.m_tasks;
      const int64_t row = (p_.lower ? grid_.m_tasks - 1 - down : down) * grid_.mc;
      const int64_t panel = task / grid_.m_tasks * grid_.nc_panels;
      c_block({row, std::min(grid_.mc, p_.y.rows() - row), panel,
               std::min(grid_.nc_panels, layout_.panels(p_.y.cols()) - panel)},
              memory(thread));
    };
    if (grid_.m_tasks == 1) {  // reading B may limit the speed
      ctx_.pool.parallel_streams(grid_.n_tasks, task);
    } else {
      ctx_.pool.parallel_for(grid_.m_tasks * grid_.n_tasks, task);
    }
  }

 private:
  struct CBlock {
    int64_t row, rows;
    int64_t panel, panels;
  };
  struct KBlock {
    int64_t from, words;  // range of words along k
    bool first, last;
    bool a_in_place;    // true: the micro-kernel reads A directly; false: packed rows of A
    int64_t packed_at;  // offset of the block in a packed row, in words
  };
  struct Memory {
    uint32_t* a;  // packed A: a block [mc,kc], or all of k for few rows [m,k]
    uint32_t* b;  // packed or widened panel of B [kc,nr]
    float* pre;   // pre-activations of a micro-tile
    float* c;     // C of a micro-tile; C of the whole task if there are several blocks of k
  };

  int64_t a_words() const {
    return (streams_b_ ? p_.y.rows() : grid_.mc) * a_row_words_;
  }
  int64_t b_words() const {
    return unpacked_b_ ? 0 : kernels_.nr * kc_;
  }
  int64_t tile_words() const {
    return (unpacked_b_ ? p_.y.rows() : kernels_.mr) * kernels_.nr;
  }
  int64_t c_words() const {
    return k_blocks_ == 1 ? tile_words() : grid_.mc * grid_.nc_panels * kernels_.nr;
  }
  int64_t scratch_words() const {
    return a_words() + b_words() + (c_is_y_ ? 0 : tile_words() + c_words());
  }

  Memory memory(int thread) const {
    auto* a = ctx_.scratch.thread<uint32_t>(thread);
    uint32_t* b = a + a_words();
    auto* pre = reinterpret_cast<float*>(b + b_words());
    return {a, b, pre, pre + tile_words()};
  }

  KBlock k_block(int64_t b) const {
    const int64_t from = b * kc_, words = std::min(kc_, k_words_ - from);
    const bool whole = (from + words) * kernels_.k_pack <= k_;
    return {from, words, b == 0, b + 1 == k_blocks_, a_in_place_ && whole, 0};
  }

  void c_block(const CBlock& c, const Memory& memory) const {
    if (streams_b_) return c_block_of_few_rows(c, memory);
    for (int64_t b = 0; b < k_blocks_; ++b) {
      const KBlock block = k_block(b);
      if (!block.a_in_place) pack_a(c, block, memory.a);
      const int64_t mr = micro_rows(c);
      for (int64_t s = 0; s < c.panels; ++s) {
        const int64_t first = first_tile(c, s, mr);
        if (first >= c.rows) break;
        MicroKernelArgs t = panel_args(c, block, s, b_panel(c, c.panel + s, block, memory.b));
        for (int64_t i = first; i < c.rows; i += mr)
          micro_tile(c, block, s, i, std::min(mr, c.rows - i), t, memory);
      }
    }
  }

  // Returns the first row of a panel that must be computed, rounded down to a multiple of mr. Returns 0
  // unless only the lower triangle of C is needed.
  int64_t first_tile(const CBlock& c, int64_t s, int64_t mr) const {
    const int64_t above = (c.panel + s) * kernels_.nr - c.row;
    return p_.lower && above > 0 ? above / mr * mr : 0;
  }

  // Computes a block of C with the loop over panels outside and the loop over k inside, so that B is read in
  // memory order.
  void c_block_of_few_rows(const CBlock& c, const Memory& memory) const {
    const bool a_in_place = k_block(k_blocks_ - 1).a_in_place;
    if (!a_in_place) pack_a(c, {0, k_words_, true, true, false, 0}, memory.a);
    for (int64_t s = 0; s < c.panels; ++s) {
      for (int64_t b = 0; b < k_blocks_; ++b) {
        KBlock block = k_block(b);
        block.a_in_place = a_in_place;
        block.packed_at = block.from;
        MicroKernelArgs t = panel_args(c, block, s, b_panel(c, c.panel + s, block, memory.b));
        micro_tile(c, block, s, 0, c.rows, t, memory);
      }
    }
  }

  // Returns the number of rows of a micro-tile. With a packed B, few rows are split evenly, because a
  // micro-tile of two or three rows is slow; many rows are split into micro-tiles of mr rows.
  int64_t micro_rows(const CBlock& c) const {
    if (unpacked_b_) return c.rows;
    const int64_t tiles = ceil_div(c.rows, kernels_.mr);
    return prefetches_panel(c) ? ceil_div(c.rows, tiles) : kernels_.mr;
  }

  // True if so few micro-tiles share a panel of packed B that memory bandwidth is the limit. Each of these
  // micro-tiles prefetches a part of the next panel. A single micro-tile does not prefetch, because the
  // hardware prefetcher is faster.
  bool prefetches_panel(const CBlock& c) const {
    return p_.packed != nullptr && c.rows > kernels_.mr && c.rows <= kPrefetchTiles * kernels_.mr;
  }

  int64_t elements(const KBlock& block) const {
    return std::min(block.words * kernels_.k_pack, k_ - block.from * kernels_.k_pack);
  }

  bool can_read_a_in_place() const {
    // Rows at this distance all map to the same set of the L1 cache, which has eight ways.
    constexpr int64_t kSetStride = 4096;
    if (p_.a.ld * static_cast<int64_t>(dtype_size(p_.a.dtype)) % kSetStride == 0) return false;
    if (layout_.format == PackFormat::bf16_pairs) return p_.a.dtype == DType::bf16 && p_.a.ld % 2 == 0;
    return layout_.format == PackFormat::f32 && p_.a.dtype == DType::f32;
  }

  const std::byte* row_of_a(int64_t row, const KBlock& block) const {
    return element(p_.a, row, block.from * kernels_.k_pack);
  }

  void pack_a(const CBlock& c, const KBlock& block, uint32_t* dst) const {
    kernels_.pack_rows(layout_.format, {.src = row_of_a(c.row, block),
                                        .type = p_.a.dtype,
                                        .ld = p_.a.ld,
                                        .rows = c.rows,
                                        .k = elements(block),
                                        .dst = dst,
                                        .dst_ld = a_row_words_});
  }

  static bool k_contiguous(const GemmArgs& p) {
    return p.b_transposed == p.b.transposed;
  }

  // Returns the dtype of the panel that the micro-kernel reads.
  DType b_type(const CBlock& c) const {
    if (unpacked_b_) return p_.b.dtype;
    return p_.packed && c.rows <= kFewRows ? layout_.stored : DType::f32;
  }

  const void* b_panel(const CBlock& c, int64_t panel, const KBlock& block, uint32_t* scratch) const {
    const int64_t nr = kernels_.nr;
    const int64_t k = block.from * kernels_.k_pack;
    if (p_.packed == nullptr && is_quantized(p_.b.dtype)) {
      pack_blocks(panel * nr, block, scratch);
      return scratch;
    }
    if (p_.packed == nullptr) {
      const std::byte* src = p_.b_transposed ? element(p_.b, k, panel * nr) : element(p_.b, panel * nr, k);
      if (unpacked_b_) return src;
      kernels_.pack_panel(layout_.format, {.src = src,
                                           .type = p_.b.dtype,
                                           .ld = p_.b.ld,
                                           .k_contiguous = k_contiguous(p_),
                                           .count = std::min(nr, p_.y.cols() - panel * nr),
                                           .k = elements(block),
                                           .width = nr,
                                           .dst = scratch});
      return scratch;
    }
    const int64_t at = (panel * k_words_ + block.from) * nr;
    if (layout_.stored == DType::f32) return static_cast<const uint32_t*>(p_.packed->data) + at;
    const uint16_t* stored = static_cast<const uint16_t*>(p_.packed->data) + at;
    if (b_type(c) != DType::f32) return stored;
    kernels_.convert({.rows = 1,
                      .cols = block.words * nr,
                      .src = stored,
                      .src_type = layout_.stored,
                      .dst = scratch,
                      .dst_type = DType::f32});
    return scratch;
  }

  // Dequantizes the quantized rows of B and packs the panel that starts at column `col`.
  void pack_blocks(int64_t col, const KBlock& block, uint32_t* dst) const {
    static_assert(kMaxNr <= kQuantBlock);
    constexpr int64_t kColumns = 2 * kQuantBlock;  // nr columns may span two quantization blocks
    float rows[kBlockRows * kColumns];
    const int64_t count = std::min(kernels_.nr, p_.y.cols() - col), first = col / kQuantBlock;
    const auto* b = static_cast<const std::byte*>(p_.b.data);
    for (int64_t l = 0; l < block.words; l += kBlockRows) {
      const int64_t n = std::min(kBlockRows, block.words - l);
      for (int64_t i = 0; i < n; ++i) {
        const std::byte* row = b + (block.from + l + i) * row_bytes(p_.b.dtype, p_.b.ld);
        for (int64_t at = first; at * kQuantBlock < col + count; ++at)
          dequantize_block(p_.b.dtype, row, at, rows + i * kColumns + (at - first) * kQuantBlock);
      }
      kernels_.pack_panel(layout_.format, {.src = rows + col % kQuantBlock,
                                           .type = DType::f32,
                                           .ld = kColumns,
                                           .k_contiguous = false,
                                           .count = count,
                                           .k = n,
                                           .width = kernels_.nr,
                                           .dst = dst + l * kernels_.nr});
    }
  }

  // Returns the arguments that all micro-tiles of a panel share. The struct is built once per panel, because
  // building it takes as long as computing several rows with a short k.
  MicroKernelArgs panel_args(const CBlock& c, const KBlock& block, int64_t s, const void* panel) const {
    const int64_t col = (c.panel + s) * kernels_.nr;
    const int64_t a_row = block.a_in_place ? p_.a.ld / kernels_.k_pack : a_row_words_;
    return {.rows = 0,
            .cols = std::min(kernels_.nr, p_.y.cols() - col),
            .k = block.words,
            .a = nullptr,
            .a_row = a_row,
            .a_k = 1,
            .prefetch = nullptr,
            .prefetch_stride = block.a_in_place ? a_row : 0,
            .prefetch_rows = kernels_.mr,
            .b = panel,
            .b_type = b_type(c),
            .b_ld = p_.b.ld,
            .b_k_contiguous = k_contiguous(p_),
            .prefetch_distance = prefetch_distance_,
            .c = nullptr,
            .ldc = c_is_y_ ? p_.y.ld : kernels_.nr,
            .bias = p_.bias && block.last ? p_.bias + col : nullptr,
            .accumulate = (c_is_y_ && p_.accumulate) || !block.first};
  }

  // Computes one micro-tile, which consists of `rows` rows of C starting at row i of the block. `t` already
  // contains the arguments of the panel.
  void micro_tile(const CBlock& c, const KBlock& block, int64_t s, int64_t i, int64_t rows,
                  MicroKernelArgs& t, const Memory& memory) const {
    const int64_t row = c.row + i, col = (c.panel + s) * kernels_.nr;
    const void* panel = t.b;
    t.rows = rows;
    if (block.a_in_place) {
      t.a = row_of_a(row, block);
      t.prefetch = s == 0 ? row_of_a(row + kernels_.mr, block) : t.a;
    } else {
      t.a = t.prefetch = memory.a + i * a_row_words_ + block.packed_at;
    }
    if (c_is_y_) {
      t.c = p_.y.row<float>(row) + col;
    } else {
      t.c = memory.c + (k_blocks_ == 1 ? 0 : s * grid_.mc + i) * kernels_.nr;
      if (block.last) prefetch_result(t, row, col);
    }
    if (panel != memory.b) {
      if (prefetches_panel(c)) {
        t.prefetch = static_cast<const uint32_t*>(panel) + k_words_ * kernels_.nr +
                     i / micro_rows(c) * block.words * kLineWords;
        t.prefetch_rows = 1;
      } else if (prefetches_next_ && (s > 0 || !block.a_in_place)) {
        prefetch_next(c, block, i, panel, t);
      }
    }
    unpacked_b_ ? kernels_.unpacked_kernel(t) : kernels_.micro_kernel(t);
    if (!c_is_y_ && block.last) finish(t, row, col, memory.pre);
  }

  // Sets the prefetch addresses for two regions: C of the micro-tile below, and this micro-tile's share of
  // the next panel of B.
  void prefetch_next(const CBlock& c, const KBlock& block, int64_t i, const void* panel,
                     MicroKernelArgs& t) const {
    const int64_t tiles = ceil_div(c.rows, kernels_.mr), lines = block.words * kernels_.nr / kLineWords;
    t.prefetch = t.c + kernels_.mr * t.ldc;
    t.prefetch_stride = t.ldc;
    t.prefetch_b = static_cast<const uint32_t*>(panel) + k_words_ * kernels_.nr +
                   i / kernels_.mr * lines / tiles * kLineWords;
  }

  // Prefetches the parts of Y and `pre` that finish() reads or writes. Called only if Y is not C itself.
  void prefetch_result(const MicroKernelArgs& t, int64_t row, int64_t col) const {
    for (int64_t i = row; i < row + t.rows; ++i) {
      __builtin_prefetch(element(p_.y, i, col), 1);
      if (p_.pre) __builtin_prefetch(element(p_.pre, i, col), 1);
    }
  }

  // Returns the arguments for kernels_.convert that store C of a micro-tile in `view`, starting at (row,
  // col).
  ConvertArgs to_view(const MicroKernelArgs& t, const TensorView& view, int64_t row, int64_t col) const {
    return {.rows = t.rows,
            .cols = t.cols,
            .src = t.c,
            .src_type = DType::f32,
            .src_ld = t.ldc,
            .dst = const_cast<std::byte*>(element(view, row, col)),
            .dst_type = view.dtype,
            .dst_ld = view.ld};
  }

  // Applies the activation to a micro-tile and converts the result to Y.
  void finish(const MicroKernelArgs& t, int64_t row, int64_t col, float* pre) const {
    if (p_.act && p_.backward) {
      kernels_.convert({.rows = t.rows,
                        .cols = t.cols,
                        .src = element(p_.pre, row, col),
                        .src_type = p_.pre.dtype,
                        .src_ld = p_.pre.ld,
                        .dst = pre,
                        .dst_type = DType::f32,
                        .dst_ld = t.ldc});
      for_runs(t, [&](int64_t at, int64_t n) { act_->backward(t.c + at, t.c + at, pre + at, n); });
    } else if (p_.act) {
      if (p_.pre) kernels_.convert(to_view(t, p_.pre, row, col));
      for_runs(t, [&](int64_t at, int64_t n) { act_->forward(t.c + at, t.c + at, n); });
    }
    ConvertArgs result = to_view(t, p_.y, row, col);
    result.accumulate = p_.accumulate;
    kernels_.convert(result);
  }

  // Calls fn(first element, number of elements) for C of a micro-tile, split into as few contiguous runs as
  // possible.
  template <class F>
  static void for_runs(const MicroKernelArgs& t, F&& fn) {
    if (t.cols == t.ldc) return fn(0, t.rows * t.ldc);
    for (int64_t i = 0; i < t.rows; ++i)
      fn(i * t.ldc, t.cols);
  }

  // True if A has few rows and B can be read without packing.
  static bool reads_unpacked_b(Isa isa, const GemmArgs& p) {
    return p.packed == nullptr && !is_quantized(p.b.dtype) && p.y.rows() <= kUnpackedRows &&
           (p.compute == DType::f32 || p.compute == p.b.dtype) &&
           layout_of(isa, p.compute).kernels.unpacked_kernel != nullptr;
  }
  static Layout layout_for(Isa isa, const GemmArgs& p, bool unpacked_b) {
    Layout layout = layout_of(isa, p.compute);
    if (unpacked_b && !k_contiguous(p)) {
      layout.kernels.mr = kMaxMr * kMaxNr / kUnpackedColumns;
      layout.kernels.nr = kUnpackedColumns;
    }
    return layout;
  }

  const ExecContext& ctx_;
  const GemmArgs& p_;
  bool unpacked_b_;  // true: panels are read directly from B, nr columns at a time
  Layout layout_;
  const Kernels& kernels_;
  int64_t k_, k_words_, kc_, k_blocks_;
  bool streams_b_;       // true: few rows, so the loop over panels is the outer loop
  int64_t a_row_words_;  // row stride of packed A, in words
  bool a_in_place_;
  bool c_is_y_;
  bool prefetches_next_;
  int64_t prefetch_distance_;
  TaskGrid grid_;
  const ActKernels* act_ = nullptr;
};

}  // namespace

void gemm(const ExecContext& ctx, Isa isa, const GemmArgs& p) {
  if (p.y.rows() == 0 || p.y.cols() == 0) return;
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(gemm_scratch(p.y.rows(), p.y.cols(), p.a.cols())));
  Gemm(ctx, isa, p).run();
}

// Returns enough scratch memory for every packed layout and for any smaller number of rows. A task has up to
// kMc rows, rounded up to a multiple of the rows of a micro-tile.
ScratchNeed gemm_scratch(int64_t m, int64_t n, int64_t k) {
  const int64_t rows = std::min(kMc, m) + kMaxMr - 1;
  const int64_t block = std::min(kMaxKc, round_up(k, 16));
  const int64_t a = rows * (block + kRowPadding), b = kMaxNr * block;
  const int64_t c = rows * std::min(kNc, n + kUnpackedColumns);
  return {.per_thread = (a + b + kTileWords + std::max(c, kTileWords)) * kWordBytes};
}

}  // namespace gpt::gemm

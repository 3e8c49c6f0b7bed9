#include "kernels/cpu/gemm/rows.h"

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/gemm/layout.h"
#include "kernels/cpu/streaming.h"

namespace gpt::gemm {
namespace {

constexpr int64_t kTileRows = 192;     // by a block of k: 384 KiB of A in the second-level cache
constexpr int64_t kFewestRows = 48;    // fewer would read B more often than it is worth
constexpr int64_t kTileCols = 384;     // where sums of several blocks of k must be kept
constexpr int64_t kMinTasks = 16;      // so that 2 threads end together, and 7 nearly so
constexpr int64_t kPartOfB = 2 << 20;  // bytes that stay in the third-level cache while the rows pass
constexpr int64_t kStreamingTiles = 4;
constexpr int64_t kNearUnits = 1 << 20;  // of A, B and C together: what second-level caches hold anyway
constexpr int64_t kMadeUnits = kMaxRows * (kMaxBlock + kPadding);  // in the scratch of a thread
constexpr int64_t kTaskCycles = 8192;  // at least, about: handing out a task costs some 200

// How the rows and the strips of columns are cut into tasks; of the shape alone.
struct Grid {
  int64_t tile_rows, n_rows;      // rows of a task, tasks down
  int64_t tile_strips, n_strips;  // strips of a task, tasks across

  Grid(const Layout& layout, int64_t m, int64_t n, int64_t units) {
    const int64_t strips = layout.strips(n);
    const int64_t bytes = strips * layout.kernels.nr * units * kUnitBytes;
    const int64_t widest = ceil_div(n, kTileCols);  // narrower ones would read A too often
    int64_t across = units > layout.block(units) ? widest : std::min(ceil_div(bytes, kPartOfB), widest);
    int64_t down = ceil_div(m, kTileRows);
    if (down * across < kMinTasks) down = std::min(ceil_div(m, kFewestRows), ceil_div(kMinTasks, across));
    const int64_t cycles = std::max<int64_t>(m, 4) * strips * units * 2;
    const int64_t tasks = std::clamp<int64_t>(cycles / kTaskCycles, 1, kMinTasks);
    if (down * across < tasks) across = ceil_div(tasks, down);
    tile_rows = round_up(ceil_div(m, down), layout.kernels.mr);
    n_rows = ceil_div(m, tile_rows);
    tile_strips = ceil_div(strips, std::min(across, strips));
    n_strips = ceil_div(strips, tile_strips);
  }
};

#ifdef GPT_HAVE_SIMD
const RowKernels& row_kernels(Isa isa) {
  return isa >= Isa::avx512 ? avx512_row_kernels() : avx2_row_kernels();
}
#endif

class RowMultiplier {
 public:
  RowMultiplier(const ExecContext& ctx, Isa isa, const RowProduct& p)
      : ctx_(ctx),
        p_(p),
        plain_(reads_plain_b(isa, p)),
        layout_(layout_for(isa, p, plain_)),
        kernels_(layout_.kernels),
        k_(p.a.cols()),
        units_(layout_.units(k_)),
        block_(layout_.block(units_)),
        n_blocks_(std::max<int64_t>(1, ceil_div(units_, block_))),
        streams_(((p.packed && p.y.rows() <= kFewRows) || (plain_ && k_contiguous(p))) &&
                 p.y.rows() * (units_ + kPadding) <= kMadeUnits),
        row_units_((streams_ ? units_ : block_) + kPadding),
        rows_are_units_(rows_are_units()),
        direct_(p.y.dtype == DType::f32 && !p.act),
        fetches_ahead_(!plain_ && !streams_ && kernels_.fetch_ahead &&
                       p.y.size() + (p.y.rows() + p.y.cols()) * units_ > kNearUnits),
        ahead_(streams_ && p.packed ? streaming_distance(isa) : 0),
        grid_(layout_, p.y.rows(), p.y.cols(), units_) {
#ifdef GPT_HAVE_SIMD
    if (p.act) act_ = &drivers::act_kernels(row_kernels(isa).f32, *p.act);
#endif
  }

  void run() const {
    const auto task = [this](int64_t task, int thread) {
      const int64_t row = task % grid_.n_rows * grid_.tile_rows;
      const int64_t strip = task / grid_.n_rows * grid_.tile_strips;
      part({row, std::min(grid_.tile_rows, p_.y.rows() - row), strip,
            std::min(grid_.tile_strips, layout_.strips(p_.y.cols()) - strip)},
           memory(thread));
    };
    if (grid_.n_rows == 1) {  // perhaps it is the reading of B that takes the time
      ctx_.pool.parallel_streams(grid_.n_strips, task);
    } else {
      ctx_.pool.parallel_for(grid_.n_rows * grid_.n_strips, task);
    }
  }

 private:
  struct Part {
    int64_t row, rows;
    int64_t strip, strips;
  };
  struct Block {
    int64_t from, units;  // of k
    bool first, last;
    bool in_place;  // A is read as it is
    int64_t made;   // where else its units are in a row of those that were made
  };
  struct Memory {
    uint32_t* a;    // a block of the rows, where they must be made units
    uint32_t* b;    // a block of one strip, where it may have to be made
    float* slopes;  // a tile
    float* c;       // sums: of one tile, or of all where there are several blocks
  };

  Memory memory(int thread) const {
    auto* a = ctx_.scratch.thread<uint32_t>(thread);
    uint32_t* b = a + grid_.tile_rows * unit_row();
    auto* slopes = reinterpret_cast<float*>(b + (plain_ ? 0 : kernels_.nr * block_));
    return {a, b, slopes, slopes + kernels_.mr * kernels_.nr};
  }

  // Block b of k; where units must be made, at the beginning of their memory.
  Block block_at(int64_t b) const {
    const int64_t from = b * block_, units = std::min(block_, units_ - from);
    const bool whole = (from + units) * kernels_.per_unit <= k_;
    return {from, units, b == 0, b + 1 == n_blocks_, rows_are_units_ && whole, 0};
  }

  void part(const Part& part, const Memory& memory) const {
    if (streams_) return stream(part, memory);
    for (int64_t b = 0; b < n_blocks_; ++b) {
      const Block block = block_at(b);
      if (!block.in_place) make_units(part, block, memory.a);
      const int64_t step = tile_rows(part);
      for (int64_t s = 0; s < part.strips; ++s) {
        const void* strip = strip_of_b(part, part.strip + s, block, memory.b);
        for (int64_t i = 0; i < part.rows; i += step)
          tile(part, block, s, {i, std::min(step, part.rows - i)}, strip, memory);
      }
    }
  }

  // Few rows pass B once: strip by strip, as it lies in memory.
  void stream(const Part& part, const Memory& memory) const {
    const bool in_place = block_at(n_blocks_ - 1).in_place;
    if (!in_place) make_units(part, {0, units_, true, true, false, 0}, memory.a);
    for (int64_t s = 0; s < part.strips; ++s) {
      for (int64_t b = 0; b < n_blocks_; ++b) {
        Block block = block_at(b);
        block.in_place = in_place;
        block.made = block.from;
        tile(part, block, s, {0, part.rows}, strip_of_b(part, part.strip + s, block, memory.b), memory);
      }
    }
  }

  // Few rows are cut evenly where B is packed, for a tile of two or three rows is slow; many into whole
  // tiles.
  int64_t tile_rows(const Part& part) const {
    if (plain_) return part.rows;
    const int64_t tiles = ceil_div(part.rows, kernels_.mr);
    return streams_b(part) ? ceil_div(part.rows, tiles) : kernels_.mr;
  }

  // Whether B, packed, passes by so fast that it is memory that counts: the tiles of a strip then fetch the
  // next one. With a single tile the processor's own prefetching does better.
  bool streams_b(const Part& part) const {
    return p_.packed != nullptr && part.rows > kernels_.mr && part.rows <= kStreamingTiles * kernels_.mr;
  }

  int64_t elements(const Block& block) const {
    return std::min(block.units * kernels_.per_unit, k_ - block.from * kernels_.per_unit);
  }

  // From row to row of units that were made.
  int64_t unit_row() const {
    return row_units_;
  }

  bool rows_are_units() const {
    // So far apart all rows of a tile would fall on the same lines of the first-level cache, which has eight.
    constexpr int64_t kSameLines = 4096;
    if (p_.a.ld * static_cast<int64_t>(dtype_size(p_.a.dtype)) % kSameLines == 0) return false;
    if (layout_.form == Form::bf16_pairs) return p_.a.dtype == DType::bf16 && p_.a.ld % 2 == 0;
    return layout_.form == Form::f32 && p_.a.dtype == DType::f32;
  }

  const std::byte* row_of_a(int64_t row, const Block& block) const {
    return element(p_.a, row, block.from * kernels_.per_unit);
  }

  void make_units(const Part& part, const Block& block, uint32_t* dst) const {
    kernels_.unit_rows(layout_.form, {.src = row_of_a(part.row, block),
                                      .type = p_.a.dtype,
                                      .ld = p_.a.ld,
                                      .rows = part.rows,
                                      .k = elements(block),
                                      .dst = dst,
                                      .dst_ld = unit_row()});
  }

  // What a tile takes a strip of B as: elements that it makes units itself, or units.
  static bool k_contiguous(const RowProduct& p) {
    return p.b_transposed == p.b.transposed;
  }

  DType strip_type(const Part& part) const {
    if (plain_) return p_.b.dtype;
    return p_.packed && part.rows <= kFewRows ? layout_.stored : DType::f32;
  }

  const void* strip_of_b(const Part& part, int64_t strip, const Block& block, uint32_t* made) const {
    const int64_t nr = kernels_.nr;
    const int64_t k = block.from * kernels_.per_unit;
    if (p_.packed == nullptr) {
      const std::byte* src = p_.b_transposed ? element(p_.b, k, strip * nr) : element(p_.b, strip * nr, k);
      if (plain_) return src;
      kernels_.pack(layout_.form, {.src = src,
                                   .type = p_.b.dtype,
                                   .ld = p_.b.ld,
                                   .k_contiguous = k_contiguous(p_),
                                   .count = std::min(nr, p_.y.cols() - strip * nr),
                                   .k = elements(block),
                                   .width = nr,
                                   .dst = made});
      return made;
    }
    const int64_t at = (strip * units_ + block.from) * nr;
    if (layout_.stored == DType::f32) return static_cast<const uint32_t*>(p_.packed->data) + at;
    const uint16_t* stored = static_cast<const uint16_t*>(p_.packed->data) + at;
    if (strip_type(part) != DType::f32) return stored;
    kernels_.convert({.rows = 1,
                      .cols = block.units * nr,
                      .src = stored,
                      .src_type = layout_.stored,
                      .dst = made,
                      .dst_type = DType::f32});
    return made;
  }

  struct Rows {
    int64_t first, count;  // of a part
  };

  void tile(const Part& part, const Block& block, int64_t s, Rows rows, const void* strip,
            const Memory& memory) const {
    const int64_t i = rows.first;
    const int64_t row = part.row + i;
    const int64_t col = (part.strip + s) * kernels_.nr;
    TileArgs t{.rows = rows.count,
               .cols = std::min(kernels_.nr, p_.y.cols() - col),
               .k = block.units,
               .a_unit = 1,
               .b = strip,
               .b_type = strip_type(part),
               .b_ld = p_.b.ld,
               .b_k_contiguous = k_contiguous(p_),
               .ahead = ahead_,
               .bias = p_.bias && block.last ? p_.bias + col : nullptr};
    if (block.in_place) {
      t.a = row_of_a(row, block);
      t.a_row = p_.a.ld / kernels_.per_unit;
      t.next = s == 0 ? row_of_a(row + kernels_.mr, block) : t.a;
      t.next_row = t.a_row;
    } else {
      t.a = t.next = memory.a + i * unit_row() + block.made;
      t.a_row = unit_row();
    }
    t.next_rows = kernels_.mr;
    if (streams_b(part) && strip != memory.b) {
      t.next = static_cast<const uint32_t*>(strip) + units_ * kernels_.nr +
               i / tile_rows(part) * block.units * kLine;
      t.next_rows = 1;
    }
    if (direct_) {
      t.c = p_.y.row<float>(row) + col;
      t.ldc = p_.y.ld;
      t.add = p_.accumulate || !block.first;
    } else {
      t.c = memory.c + (n_blocks_ == 1 ? 0 : s * grid_.tile_rows + i) * kernels_.nr;
      t.ldc = kernels_.nr;
      t.add = !block.first;
    }
    if (fetches_ahead_ && (s > 0 || !block.in_place) && strip != memory.b && !streams_b(part))
      fetch_ahead(part, block, rows, strip, t);
    plain_ ? kernels_.plain_tile(t) : kernels_.tile(t);
    if (!direct_ && block.last) finish(t, row, col, memory.slopes);
  }

  // The tile's share of the next strip, and the sums of the tile below.
  void fetch_ahead(const Part& part, const Block& block, Rows rows, const void* strip, TileArgs& t) const {
    const int64_t tiles = ceil_div(part.rows, kernels_.mr), lines = block.units * kernels_.nr / kLine;
    t.next = t.c + kernels_.mr * t.ldc;
    t.next_row = t.ldc;
    t.next_b = static_cast<const uint32_t*>(strip) + units_ * kernels_.nr +
               rows.first / kernels_.mr * lines / tiles * kLine;
  }

  // Between a tile of sums and a view.
  ConvertArgs to_view(const TileArgs& t, const TensorView& view, int64_t row, int64_t col) const {
    return {.rows = t.rows,
            .cols = t.cols,
            .src = t.c,
            .src_type = DType::f32,
            .src_ld = t.ldc,
            .dst = const_cast<std::byte*>(element(view, row, col)),
            .dst_type = view.dtype,
            .dst_ld = view.ld};
  }

  void finish(const TileArgs& t, int64_t row, int64_t col, float* slopes) const {
    if (p_.act && p_.backward) {
      kernels_.convert({.rows = t.rows,
                        .cols = t.cols,
                        .src = element(p_.pre, row, col),
                        .src_type = p_.pre.dtype,
                        .src_ld = p_.pre.ld,
                        .dst = slopes,
                        .dst_type = DType::f32,
                        .dst_ld = t.ldc});
      for_runs(t, [&](int64_t at, int64_t n) {
        act_->backward(t.c + at, nullptr, t.c + at, slopes + at, nullptr, n);
      });
    } else if (p_.act) {
      if (p_.pre) kernels_.convert(to_view(t, p_.pre, row, col));
      for_runs(t, [&](int64_t at, int64_t n) { act_->forward(t.c + at, t.c + at, nullptr, n); });
    }
    ConvertArgs result = to_view(t, p_.y, row, col);
    result.add = p_.accumulate;
    kernels_.convert(result);
  }

  // fn(first element, elements): the tile's sums as few dense stretches.
  template <class F>
  static void for_runs(const TileArgs& t, F&& fn) {
    if (t.cols == t.ldc) return fn(0, t.rows * t.ldc);
    for (int64_t i = 0; i < t.rows; ++i)
      fn(i * t.ldc, t.cols);
  }

  // Few rows with a B that is not packed.
  static bool reads_plain_b(Isa isa, const RowProduct& p) {
    return p.packed == nullptr && p.y.rows() <= kPlainRows &&
           (p.compute == DType::f32 || p.compute == p.b.dtype) &&
           layout_of(isa, p.compute).kernels.plain_tile != nullptr;
  }
  static Layout layout_for(Isa isa, const RowProduct& p, bool plain) {
    Layout layout = layout_of(isa, p.compute);
    if (plain && !k_contiguous(p)) {
      layout.kernels.mr = kMaxRows * kMaxWidth / kPlainColumns;
      layout.kernels.nr = kPlainColumns;
    }
    return layout;
  }

  const ExecContext& ctx_;
  const RowProduct& p_;
  bool plain_;  // a strip is kPlainColumns of B where they are
  Layout layout_;
  const Kernels& kernels_;
  int64_t k_, units_, block_, n_blocks_;
  bool streams_;
  int64_t row_units_;
  bool rows_are_units_;
  bool direct_;  // sums grow in Y itself
  bool fetches_ahead_;
  int64_t ahead_;
  Grid grid_;
  const ActKernels* act_ = nullptr;
};

}  // namespace

void multiply_rows(const ExecContext& ctx, Isa isa, const RowProduct& p) {
  if (p.y.rows() > 0 && p.y.cols() > 0) RowMultiplier(ctx, isa, p).run();
}

ScratchNeed row_scratch(int64_t m, int64_t n, int64_t k) {
  const int64_t rows = std::min(kTileRows, round_up(m, kMaxRows));
  const int64_t block = std::min(kMaxBlock, round_up(k, 16));
  const int64_t sums = rows * std::min(kTileCols, n) + rows * kMaxWidth;
  const int64_t units = rows * (block + kPadding) + kMaxWidth * block;
  return {.per_thread = (units + kMaxRows * kMaxWidth + sums) * kUnitBytes};
}

}  // namespace gpt::gemm

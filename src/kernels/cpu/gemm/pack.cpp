#include "kernels/cpu/gemm/pack.h"

#include "kernels/cpu/gemm/layout.h"

namespace gpt::gemm {
namespace {

constexpr int64_t kDepth = 64;  // rows of a strip at a time

// Packs in pieces of one strip by kDepth elements of k. Where a piece lies in several parts, their elements
// are first brought together.
class Packer {
 public:
  Packer(const ExecContext& ctx, Isa isa, const PackMatrixArgs& args)
      : ctx_(ctx),
        args_(args),
        m_(*args.dst),
        layout_(layout_of(isa, m_.dtype)),
        nr_(layout_.kernels.nr),
        n_(m_.transposed ? m_.in : m_.out),
        k_(m_.transposed ? m_.out : m_.in) {}

  void run() const {
    ctx_.pool.parallel_for(layout_.strips(n_), [this](int64_t strip, int) {
      for (int64_t l = 0; l < k_; l += kDepth)
        piece(strip, l, std::min(kDepth, k_ - l));
    });
  }

 private:
  void piece(int64_t strip, int64_t l, int64_t k) const {
    const int64_t col = strip * nr_;
    const int64_t count = std::min(nr_, n_ - col);
    // The piece as rows and columns of the matrix [out,in].
    const int64_t row = m_.transposed ? l : col, rows = m_.transposed ? k : count;
    const int64_t first = m_.transposed ? col : l, cols = m_.transposed ? count : k;
    float gathered[kDepth * kDepth];
    PackArgs p{.count = count, .k = k, .width = nr_};
    if (const TensorView part = part_with(row, rows)) {
      p.src = element(part, 0, first);
      p.type = part.dtype;
      p.ld = part.ld;
      p.k_contiguous = m_.transposed == part.transposed;
    } else {
      gather(row, rows, first, cols, gathered);
      p.src = gathered;
      p.type = DType::f32;
      p.ld = kDepth;
      p.k_contiguous = !m_.transposed;
    }
    write(p, (strip * layout_.units(k_) + l / layout_.kernels.per_unit) * nr_);
  }

  // Rows [row, row + rows) where one part has them all.
  TensorView part_with(int64_t row, int64_t rows) const {
    for (const TensorView& part : args_.parts) {
      if (row < part.rows()) return row + rows <= part.rows() ? part.row_range(row, rows) : TensorView{};
      row -= part.rows();
    }
    return {};
  }

  void gather(int64_t row, int64_t rows, int64_t first, int64_t cols, float* dst) const {
    int64_t begin = 0;
    for (const TensorView& part : args_.parts) {
      const int64_t from = std::max(row, begin), end = std::min(row + rows, begin + part.rows());
      if (from < end) gather_part(part, {from - begin, end - from, first, cols}, dst + (from - row) * kDepth);
      begin += part.rows();
    }
  }

  struct Rectangle {
    int64_t row, rows, col, cols;
  };
  void gather_part(const TensorView& part, const Rectangle& r, float* dst) const {
    float columns[kDepth * kDepth];
    layout_.kernels.convert({.rows = part.transposed ? r.cols : r.rows,
                             .cols = part.transposed ? r.rows : r.cols,
                             .src = element(part, r.row, r.col),
                             .src_type = part.dtype,
                             .src_ld = part.ld,
                             .dst = part.transposed ? columns : dst,
                             .dst_type = DType::f32,
                             .dst_ld = kDepth});
    if (!part.transposed) return;
    for (int64_t i = 0; i < r.rows; ++i) {
      for (int64_t c = 0; c < r.cols; ++c)
        dst[i * kDepth + c] = columns[c * kDepth + i];
    }
  }

  void write(PackArgs p, int64_t at) const {
    uint32_t units[kDepth * kMaxWidth];
    const bool narrow = layout_.stored != DType::f32;
    p.dst = narrow ? units : static_cast<uint32_t*>(m_.data) + at;
    layout_.kernels.pack(layout_.form, p);
    if (!narrow) return;
    layout_.kernels.convert({.rows = 1,
                             .cols = p.k * nr_,
                             .src = units,
                             .src_type = DType::f32,
                             .dst = static_cast<uint16_t*>(m_.data) + at,
                             .dst_type = layout_.stored});
  }

  const ExecContext& ctx_;
  const PackMatrixArgs& args_;
  const PackedMatrix& m_;
  Layout layout_;
  int64_t nr_;
  int64_t n_, k_;  // columns, depth of the product's B
};

}  // namespace

void pack_weights(const ExecContext& ctx, Isa isa, const PackMatrixArgs& args) {
  Packer(ctx, isa, args).run();
}

int64_t packed_size(Isa isa, const PackedMatrix& m) {
  const Layout layout = layout_of(isa, m.dtype);
  const int64_t n = m.transposed ? m.in : m.out, k = m.transposed ? m.out : m.in;
  const int64_t bytes =
      layout.stored == DType::f32 ? kUnitBytes : static_cast<int64_t>(dtype_size(layout.stored));
  return layout.strips(n) * layout.kernels.nr * layout.units(k) * bytes;
}

}  // namespace gpt::gemm

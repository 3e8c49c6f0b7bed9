#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/layout.h"
#include "kernels/quant.h"

namespace gpt::gemm {
namespace {

constexpr int64_t kPackRows = 64;  // number of elements of k that are packed at a time

// Packs a weight matrix into micro-panels (layout.h), kPackRows elements of k of one panel at a time. If such
// a piece spans several parts of the matrix, its elements are first copied to one buffer.
class Packer {
 public:
  Packer(const ExecContext& ctx, Isa isa, const PackMatrixArgs& args)
      : ctx_(ctx),
        args_(args),
        m_(args.dst),
        layout_(layout_of(isa, m_.dtype)),
        nr_(layout_.kernels.nr),
        n_(m_.transposed ? m_.in : m_.out),
        k_(m_.transposed ? m_.out : m_.in) {}

  void run() const {
    ctx_.pool.parallel_for(layout_.panels(n_), [this](int64_t panel, int) {
      for (int64_t l = 0; l < k_; l += kPackRows)
        piece(panel, l, std::min(kPackRows, k_ - l));
    });
  }

 private:
  void piece(int64_t panel, int64_t l, int64_t k) const {
    const int64_t col = panel * nr_;
    const int64_t count = std::min(nr_, n_ - col);
    // Rows and columns of the piece in the matrix [out,in].
    const int64_t row = m_.transposed ? l : col, rows = m_.transposed ? k : count;
    const int64_t first = m_.transposed ? col : l, cols = m_.transposed ? count : k;
    float gathered[kPackRows * kPackRows];
    PackPanelArgs p{.count = count, .k = k, .width = nr_};
    if (const TensorView part = part_with(row, rows); part && !is_quantized(part.dtype)) {
      p.src = element(part, 0, first);
      p.type = part.dtype;
      p.ld = part.ld;
      p.k_contiguous = m_.transposed == part.transposed;
    } else {
      gather(row, rows, first, cols, gathered);
      p.src = gathered;
      p.type = DType::f32;
      p.ld = kPackRows;
      p.k_contiguous = !m_.transposed;
    }
    write(p, (panel * layout_.k_words(k_) + l / layout_.kernels.k_pack) * nr_);
  }

  // Returns rows [row, row + rows) if a single part contains all of them, else an absent view.
  TensorView part_with(int64_t row, int64_t rows) const {
    for (const TensorView& part : args_.parts) {
      if (row < part.rows()) return row + rows <= part.rows() ? part.slice_rows(row, rows) : TensorView{};
      row -= part.rows();
    }
    return {};
  }

  void gather(int64_t row, int64_t rows, int64_t first, int64_t cols, float* dst) const {
    int64_t begin = 0;
    for (const TensorView& part : args_.parts) {
      const int64_t from = std::max(row, begin), end = std::min(row + rows, begin + part.rows());
      if (from < end)
        gather_part(part, {from - begin, end - from, first, cols}, dst + (from - row) * kPackRows);
      begin += part.rows();
    }
  }

  struct Rectangle {
    int64_t row, rows, col, cols;
  };
  void gather_part(const TensorView& part, const Rectangle& r, float* dst) const {
    if (is_quantized(part.dtype)) return gather_blocks(part, r, dst);
    float columns[kPackRows * kPackRows];
    layout_.kernels.convert({.rows = part.transposed ? r.cols : r.rows,
                             .cols = part.transposed ? r.rows : r.cols,
                             .src = element(part, r.row, r.col),
                             .src_type = part.dtype,
                             .src_ld = part.ld,
                             .dst = part.transposed ? columns : dst,
                             .dst_type = DType::f32,
                             .dst_ld = kPackRows});
    if (!part.transposed) return;
    for (int64_t i = 0; i < r.rows; ++i) {
      for (int64_t c = 0; c < r.cols; ++c)
        dst[i * kPackRows + c] = columns[c * kPackRows + i];
    }
  }

  // Dequantizes a rectangle of a quantized part to dst.
  void gather_blocks(const TensorView& part, const Rectangle& r, float* dst) const {
    constexpr int64_t kAhead = 8;  // prefetch distance in rows; each row has only one or two blocks in a
                                   // piece
    const int64_t block = block_size(part.dtype).elements;
    const auto* rows = part.slice_rows(r.row, r.rows).as<const std::byte>();
    const int64_t stride = row_bytes(part.dtype, part.ld),
                  first = row_bytes(part.dtype, r.col / block * block);
    for (int64_t i = 0; i < r.rows; ++i) {
      const std::byte* row = rows + i * stride;
      __builtin_prefetch(row + kAhead * stride + first);
      for (int64_t b = r.col / kQuantBlock; b * kQuantBlock < r.col + r.cols; ++b) {
        UnpackedBlock unpacked;
        unpack_block(part.dtype, row, b, unpacked);
        const int64_t begin = b * kQuantBlock, end = begin + kQuantBlock;
        float* to = dst + i * kPackRows + begin - r.col;
        if (begin >= r.col && end <= r.col + r.cols) {
          layout_.kernels.dequantize(unpacked, to);
          continue;
        }
        float values[kQuantBlock];
        layout_.kernels.dequantize(unpacked, values);
        for (int64_t c = std::max(r.col, begin); c < std::min(end, r.col + r.cols); ++c)
          to[c - begin] = values[c - begin];
      }
    }
  }

  void write(PackPanelArgs p, int64_t at) const {
    uint32_t words[kPackRows * kMaxNr];
    const bool narrow = layout_.stored != DType::f32;
    p.dst = narrow ? words : static_cast<uint32_t*>(m_.data) + at;
    layout_.kernels.pack_panel(layout_.format, p);
    if (!narrow) return;
    layout_.kernels.convert({.rows = 1,
                             .cols = p.k * nr_,
                             .src = words,
                             .src_type = DType::f32,
                             .dst = static_cast<uint16_t*>(m_.data) + at,
                             .dst_type = layout_.stored});
  }

  const ExecContext& ctx_;
  const PackMatrixArgs& args_;
  const PackedMatrix& m_;
  Layout layout_;
  int64_t nr_;
  int64_t n_, k_;  // dimensions of B
};

}  // namespace

bool has_layout([[maybe_unused]] Isa isa, [[maybe_unused]] DType compute) {
#ifdef GPT_HAVE_SIMD
  return isa >= Isa::avx2 && (compute == DType::f32 || compute == DType::bf16 || compute == DType::f16);
#else
  return false;
#endif
}

Layout layout_of([[maybe_unused]] Isa isa, [[maybe_unused]] DType compute) {
#ifdef GPT_HAVE_SIMD
  if (isa == Isa::amx && compute == DType::bf16) return {bf16_kernels_amx(), PackFormat::bf16_pairs};
  if (isa == Isa::avx512bf16 && compute == DType::bf16)
    return {bf16_kernels_avx512(), PackFormat::bf16_pairs};
  Kernels kernels = isa >= Isa::avx512 ? fp32_kernels_avx512() : fp32_kernels_avx2();
  if (isa == Isa::amx) {
    kernels.max_kc = 256;  // a block [kc,nr] of B then stays in a 48 KiB L1 cache
    kernels.prefetch_next = true;
  }
  if (compute == DType::bf16) return {kernels, PackFormat::f32_of_bf16, DType::bf16};
  if (compute == DType::f16) return {kernels, PackFormat::f32_of_f16, DType::f16};
  return {kernels, PackFormat::f32};
#else
  return {};  // never called, because without SIMD the kernel table contains the reference
#endif
}

void pack_weights(const ExecContext& ctx, Isa isa, const PackMatrixArgs& args) {
  Packer(ctx, isa, args).run();
}

int64_t packed_size(Isa isa, const PackedMatrix& m) {
  const Layout layout = layout_of(isa, m.dtype);
  const int64_t n = m.transposed ? m.in : m.out, k = m.transposed ? m.out : m.in;
  const int64_t bytes =
      layout.stored == DType::f32 ? kWordBytes : static_cast<int64_t>(dtype_size(layout.stored));
  return layout.panels(n) * layout.kernels.nr * layout.k_words(k) * bytes;
}

}  // namespace gpt::gemm

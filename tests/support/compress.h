#pragma once

#include <zlib.h>
#include <zstd.h>

#include <stdexcept>
#include <string>

namespace gpt::test {

// Returns the text compressed as a gzip file.
inline std::string gzip(const std::string& text) {
  z_stream state{};
  constexpr int kGzip = 16;  // added to the window bits: see zlib.h
  if (deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&state, static_cast<uLong>(text.size())) + 32, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

// Returns the text compressed as a zstd file with a checksum.
inline std::string zstd(const std::string& text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t n = ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(n) != 0) throw std::runtime_error("ZSTD_compress2");
  out.resize(n);
  return out;
}

}  // namespace gpt::test

#include "data/token_hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t kAll = int64_t{1} << 25, kPiece = int64_t{1} << 16, kPieces = 256;

}  // namespace

uint64_t token_hash(const TokenSpan& tokens) {
  const bool all = tokens.size() <= kAll;
  const int64_t pieces = all ? (tokens.size() + kPiece - 1) / kPiece : kPieces;
  std::vector<int32_t> ids(static_cast<size_t>(kPiece));
  auto hash = static_cast<uint64_t>(tokens.size());
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t first = all ? i * kPiece : (tokens.size() - kPiece) * i / (kPieces - 1);
    const int64_t n = std::min(kPiece, tokens.size() - first);
    tokens.copy(first, n, ids.data());
    hash = XXH3_64bits_withSeed(ids.data(), static_cast<size_t>(n) * sizeof(int32_t), hash);
  }
  return hash;
}

uint64_t bytes_hash(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hex_hash(std::string_view bytes) {
  return fmt::format("{:016x}", bytes_hash(bytes));
}

}  // namespace gpt

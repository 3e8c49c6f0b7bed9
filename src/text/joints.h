#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt::detail {

// Determines the byte positions at which no merge can join two tokens. The text between two such positions
// can be merged independently. Such positions are next to a non-ASCII character: no merge has a left token
// that ends with the bytes before the position and a right token that begins with the bytes after it. Between
// two ASCII characters and inside a multi-byte character, a merge is always assumed to be possible.
class Joints {
 public:
  Joints() = default;  // without merges
  // `merges` contains the bytes of the left and right token of each merge. No token may be empty.
  explicit Joints(const std::vector<std::pair<std::string_view, std::string_view>>& merges)
      : bytes_(kPairs / 64),
        texts_(std::bit_ceil(count(merges) + 1)),
        shift_(std::countl_zero(64 * texts_.size() - 1)) {
    for (const auto& [left, right] : merges) {
      if (!may_cut(left.back(), right.front())) continue;
      set(bytes_, pair_of(left.back(), right.front()));
      set(texts_, index_of(Near(left, right), std::min(kNear, left.size()), std::min(kNear, right.size())));
    }
  }

  // Returns the end of the part of the text that begins at byte `from` < text.size() and can be merged
  // independently.
  size_t end_of_part(std::string_view text, size_t from) const {
    for (size_t at = from + 1; at < text.size(); ++at) {
      if (!may_cut(text[at - 1], text[at])) continue;
      if (!bytes_.empty() && has(bytes_, pair_of(text[at - 1], text[at])) &&
          joins(text.substr(from), at - from))
        continue;
      return at;
    }
    return text.size();
  }

 private:
  using Bits = std::vector<uint64_t>;
  static constexpr size_t kPairs = size_t{1} << 16;  // number of pairs of bytes
  static constexpr size_t kNear = 3;  // number of bytes compared on each side; enough for most characters

  static bool may_cut(char left, char right) {
    const auto l = static_cast<unsigned char>(left), r = static_cast<unsigned char>(right);
    return ((l | r) & 0x80) != 0 && (r & 0xC0) != 0x80;
  }
  // Returns the number of merges that set a bit in texts_. The number of 64-bit words in texts_ is larger
  // than this count, so at most one bit in 64 is set.
  static size_t count(const std::vector<std::pair<std::string_view, std::string_view>>& merges) {
    return static_cast<size_t>(std::ranges::count_if(
        merges, [](const auto& m) { return may_cut(m.first.back(), m.second.front()); }));
  }
  static void set(Bits& bits, size_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
  static bool has(const Bits& bits, size_t i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }
  static size_t pair_of(char left, char right) {
    return size_t{static_cast<unsigned char>(left)} << 8 | static_cast<unsigned char>(right);
  }
  // The bytes before and after a position in a text, up to kNear on each side.
  struct Near {
    uint64_t left = 0, right = 0;  // the byte next to the position is the least significant byte

    Near(std::string_view before, std::string_view behind) {
      for (size_t i = 0; i < std::min(kNear, before.size()); ++i)
        left |= uint64_t{static_cast<unsigned char>(before[before.size() - 1 - i])} << 8 * i;
      for (size_t i = 0; i < std::min(kNear, behind.size()); ++i)
        right |= uint64_t{static_cast<unsigned char>(behind[i])} << 8 * i;
    }
  };
  // Returns the bit index in texts_ for a position, computed from `left` bytes before the position and
  // `right` bytes after it.
  size_t index_of(const Near& near, size_t left, size_t right) const {
    const auto low = [](uint64_t bytes, size_t n) { return bytes & ((uint64_t{1} << 8 * n) - 1); };
    const uint64_t key = low(near.left, left) | low(near.right, right) << 24 | left << 48 | right << 52;
    return (key * 0x9E3779B97F4A7C15u) >> shift_;
  }
  bool joins(std::string_view text, size_t at) const {
    const Near near(text.substr(0, at), text.substr(at));
    const size_t most_left = std::min(kNear, at), most_right = std::min(kNear, text.size() - at);
    for (size_t left = 1; left <= most_left; ++left) {
      for (size_t right = 1; right <= most_right; ++right) {
        if (has(texts_, index_of(near, left, right))) return true;
      }
    }
    return false;
  }

  Bits bytes_;  // bit for each pair of the last byte of a left token and the first byte of a right token
  // Bit set of hashes. A hash covers the last bytes of a left token and the first bytes of a right token, up
  // to kNear each.
  Bits texts_;
  int shift_ = 0;  // shift from a hash to a bit index
};

}  // namespace gpt::detail

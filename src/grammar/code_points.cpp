#include "grammar/code_points.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"

namespace gpt::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// Returns the last code point whose UTF-8 encoding has as many bytes as the encoding of `code`.
char32_t last_of_length(char32_t code) {
  for (const char32_t last : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}})
    if (code <= last) return last;
  return CodePointSet::kLast;
}

// Appends the byte ranges of the code points from first to last, whose UTF-8 encodings must have the same
// length.
void append_forms(std::vector<Utf8Ranges>& out, char32_t first, char32_t last) {
  // One Utf8Ranges is enough if all bytes after the first byte that differs between `first` and `last` cover
  // their full range. Otherwise, the range of code points is split.
  for (int i = 1; i < 4; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if (last <= 0x7F || (first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      append_forms(out, first, first | mask);
      append_forms(out, (first | mask) + 1, last);
      return;
    }
    if ((last & mask) != mask) {
      append_forms(out, first, (last & ~mask) - 1);
      append_forms(out, last & ~mask, last);
      return;
    }
  }
  std::string low, high;
  append_utf8(low, first);
  append_utf8(high, last);
  Utf8Ranges form{};
  form.length = static_cast<int>(low.size());
  for (size_t i = 0; i < low.size(); ++i)
    form.bytes[i] = {static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])};
  out.push_back(form);
}

}  // namespace

void CodePointSet::add(char32_t first, char32_t last) {
  last = std::min(last, kLast);
  if (first > last) return;
  if (first < kFirstSurrogate && last >= kFirstSurrogate) {
    add(first, kFirstSurrogate - 1);
    first = kFirstSurrogate;
  }
  if (first >= kFirstSurrogate && first <= kLastSurrogate) first = kLastSurrogate + 1;
  if (first > last) return;
  const auto begin =
      std::find_if(ranges_.begin(), ranges_.end(), [&](Range r) { return r.last + 1 >= first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

void CodePointSet::add(const CodePointSet& other) {
  for (const Range r : other.ranges_)
    add(r.first, r.last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  char32_t next = 0;
  for (const Range r : ranges_) {
    if (r.first > next) result.add(next, r.first - 1);
    next = r.last + 1;
  }
  result.add(next, kLast);
  return result;
}

void CodePointSet::remove(const CodePointSet& other) {
  CodePointSet rest = complement();
  rest.add(other);
  *this = rest.complement();
}

bool CodePointSet::contains(char32_t code) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](Range r) { return code >= r.first && code <= r.last; });
}

std::vector<Utf8Ranges> utf8_ranges(const CodePointSet& set) {
  std::vector<Utf8Ranges> out;
  for (const CodePointSet::Range r : set.ranges()) {
    for (char32_t first = r.first; first <= r.last;) {
      char32_t last = std::min(r.last, last_of_length(first));
      // CodePointSet::add() removes surrogates, but may join the ranges on both sides of the surrogates.
      if (first < kFirstSurrogate && last >= kFirstSurrogate) last = kFirstSurrogate - 1;
      append_forms(out, first, last);
      first = last + 1;
    }
  }
  return out;
}

}  // namespace gpt::grammar

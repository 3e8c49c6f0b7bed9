#include "tasks/python_classes.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <utility>

namespace gpt {
namespace {

// Each entry lists lower-case letters that have the same upper-case letter. Python's `re` has the same table.
// When it ignores case, it treats the letters of an entry as equal.
constexpr char32_t kSameUpper[][3] = {
    {0x69, 0x131},   {0x73, 0x17f},    {0xb5, 0x3bc},    {0x345, 0x3b9, 0x1fbe},  {0x390, 0x1fd3},
    {0x3b0, 0x1fe3}, {0x3b2, 0x3d0},   {0x3b5, 0x3f5},   {0x3b8, 0x3d1},          {0x3ba, 0x3f0},
    {0x3c0, 0x3d6},  {0x3c1, 0x3f1},   {0x3c2, 0x3c3},   {0x3c6, 0x3d5},          {0x432, 0x1c80},
    {0x434, 0x1c81}, {0x43e, 0x1c82},  {0x441, 0x1c83},  {0x442, 0x1c84, 0x1c85}, {0x44a, 0x1c86},
    {0x463, 0x1c87}, {0x1c88, 0xa64b}, {0x1e61, 0x1e9b}, {0xfb05, 0xfb06}};

// Maps each character with case variants to the set of characters that match it when case is ignored.
std::map<char32_t, std::vector<char32_t>> make_same_case() {
  std::map<char32_t, std::vector<char32_t>> by_lower;
  for (char32_t code = 0; code < 0x110000; ++code) {
    const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    if (lower != code) by_lower[lower].push_back(code);
  }
  for (auto& [lower, codes] : by_lower)
    codes.push_back(lower);
  for (const auto& group : kSameUpper) {
    std::vector<char32_t> all;
    for (const char32_t lower : group) {
      if (lower == 0) continue;
      const auto known = by_lower.find(lower);
      if (known == by_lower.end()) {
        all.push_back(lower);
      } else {
        all.insert(all.end(), known->second.begin(), known->second.end());
      }
    }
    for (const char32_t lower : group) {
      if (lower != 0) by_lower[lower] = all;
    }
  }
  std::map<char32_t, std::vector<char32_t>> by_code;
  for (const auto& [lower, codes] : by_lower) {
    for (const char32_t code : codes)
      by_code[code] = codes;
  }
  return by_code;
}

const std::map<char32_t, std::vector<char32_t>>& same_case() {
  static const std::map<char32_t, std::vector<char32_t>> all = make_same_case();
  return all;
}

std::string code_text(char32_t code) {
  return fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(code));
}

}  // namespace

void PythonClass::add(Category category, bool negated, bool ascii) {
  // The characters of str.isspace, or for re.ASCII the six characters of bytes.isspace.
  const std::string space = ascii ? "\\x{9}-\\x{d}\\x{20}"
                                  : "\\x{9}-\\x{d}\\x{1c}-\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                                    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
  std::string inside;
  switch (category) {
    case Category::digit:
      inside = ascii ? "0-9" : "\\p{Nd}";
      break;
    case Category::space:
      inside = space;
      break;
    case Category::word:
      inside = ascii ? "0-9A-Za-z_" : "\\p{L}\\p{N}_";
      break;
  }
  if (negated) {
    alternatives_.push_back("[^" + inside + "]");
  } else {
    properties_ += inside;
  }
}

void PythonClass::ignore_case(bool ascii) {
  const std::vector<Range> given = ranges_;
  const auto add_shifted = [&](const Range& range, char32_t first, char32_t last, int shift) {
    const char32_t from = std::max(range.first, first), to = std::min(range.last, last);
    if (from <= to) add(from + static_cast<char32_t>(shift), to + static_cast<char32_t>(shift));
  };
  for (const Range& range : given) {
    if (ascii) {
      add_shifted(range, 'a', 'z', 'A' - 'a');
      add_shifted(range, 'A', 'Z', 'a' - 'A');
      continue;
    }
    const auto end = same_case().upper_bound(range.last);
    for (auto code = same_case().lower_bound(range.first); code != end; ++code) {
      for (const char32_t other : code->second)
        add(other, other);
    }
  }
}

std::string PythonClass::pcre2() const {
  std::vector<Range> ranges = ranges_;
  std::ranges::sort(ranges, {}, &Range::first);
  std::vector<Range> merged;
  for (const Range& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  std::string inside;
  for (Range range : merged) {
    // UTF-8 cannot encode surrogates, so ranges must not begin or end with one.
    if (range.first >= 0xd800 && range.first <= 0xdfff) range.first = 0xe000;
    if (range.last >= 0xd800 && range.last <= 0xdfff) range.last = 0xd7ff;
    if (range.first > range.last) continue;
    inside += code_text(range.first);
    if (range.last > range.first) inside += "-" + code_text(range.last);
  }
  inside += properties_;
  if (alternatives_.empty() && !inside.empty()) return (negated_ ? "[^" : "[") + inside + "]";
  std::string any;
  for (const std::string& alternative : alternatives_)
    any += (any.empty() ? "" : "|") + alternative;
  if (!inside.empty()) any += "|[" + inside + "]";
  if (any.empty()) any = "(?!)";
  return negated_ ? "(?:(?!" + any + ")[\\x{0}-\\x{10ffff}])" : "(?:" + any + ")";
}

}  // namespace gpt

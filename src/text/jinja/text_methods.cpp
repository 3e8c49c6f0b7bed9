#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"

namespace gpt::jinja {

JinjaText strip_text(const JinjaText& text, const JinjaText* chars, bool left, bool right) {
  const std::string_view bytes = text.text;
  if (chars == nullptr) {
    const std::string_view kept = python_strip(bytes, left, right);
    const auto begin = static_cast<size_t>(kept.data() - bytes.data());
    return text.substr(begin, begin + kept.size());
  }
  const std::vector<size_t> offsets = char_offsets(bytes), wanted = char_offsets(chars->text);
  const auto is_wanted = [&](size_t i) {
    const std::string_view c = bytes.substr(offsets[i], offsets[i + 1] - offsets[i]);
    for (size_t k = 0; k + 1 < wanted.size(); ++k) {
      if (std::string_view(chars->text).substr(wanted[k], wanted[k + 1] - wanted[k]) == c) return true;
    }
    return false;
  };
  size_t begin = 0, end = offsets.size() - 1;
  while (left && begin < end && is_wanted(begin))
    ++begin;
  while (right && end > begin && is_wanted(end - 1))
    --end;
  return text.substr(offsets[begin], offsets[end]);
}

namespace {

// Equivalent to str.split() without a separator. Returns the words between white space.
std::vector<Value> words(Runtime& rt, const JinjaText& text, int64_t most) {
  std::vector<Value> parts;
  const std::string_view bytes = text.text;
  size_t at = 0;
  const auto skip = [&](bool space) {
    while (at < bytes.size() && is_python_space(decode_utf8(bytes, at).code) == space)
      at += static_cast<size_t>(decode_utf8(bytes, at).length);
  };
  for (skip(true); at < bytes.size(); skip(true)) {
    rt.limits.step();
    const size_t begin = at;
    if (most >= 0 && std::ssize(parts) >= most) {
      parts.emplace_back(text.substr(begin, bytes.size()));
      break;
    }
    skip(false);
    parts.emplace_back(text.substr(begin, at));
  }
  return parts;
}

}  // namespace

Value split_text(Runtime& rt, const JinjaText& text, const JinjaText* separator, int64_t most) {
  rt.limits.use(text.text.size());
  if (separator == nullptr) return make_list(words(rt, text, most));
  if (separator->text.empty()) fail("split: the separator is empty");
  std::vector<Value> parts;
  size_t begin = 0;
  for (size_t at = text.text.find(separator->text);
       at != std::string::npos && (most < 0 || std::ssize(parts) < most);
       at = text.text.find(separator->text, begin)) {
    rt.limits.step();
    parts.emplace_back(text.substr(begin, at));
    begin = at + separator->text.size();
  }
  parts.emplace_back(text.substr(begin, text.text.size()));
  return make_list(std::move(parts));
}

Value replace_text(Runtime& rt, const JinjaText& text, const JinjaText& from, const JinjaText& to,
                   int64_t most) {
  TextBuilder out(rt.limits);
  size_t begin = 0;
  int64_t done = 0;
  const auto may = [&] { return most < 0 || done < most; };
  if (from.text.empty()) {  // insert `to` before each character and after the last character
    const std::vector<size_t> offsets = char_offsets(text.text);
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (may()) out.add(to);
      ++done;
      if (i + 1 < offsets.size()) out.add(text, offsets[i], offsets[i + 1]);
    }
    return out.value();
  }
  for (size_t at = text.text.find(from.text); at != std::string::npos && may();
       at = text.text.find(from.text, begin)) {
    out.add(text, begin, at).add(to);
    begin = at + from.text.size();
    ++done;
  }
  return out.add(text, begin, text.text.size()).value();
}

std::vector<JinjaText> text_lines(const JinjaText& text, bool keep_ends) {
  std::vector<JinjaText> lines;
  const std::string_view bytes = text.text;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, at);
    const size_t stop = at;
    at += static_cast<size_t>(c.length);
    const bool ends = (c.code >= 0xa && c.code <= 0xd) || (c.code >= 0x1c && c.code <= 0x1e) ||
                      c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    if (!ends) continue;
    if (c.code == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.push_back(text.substr(begin, keep_ends ? at : stop));
    begin = at;
  }
  if (begin < bytes.size()) lines.push_back(text.substr(begin, bytes.size()));
  return lines;
}

JinjaText pad_text(Runtime& rt, const JinjaText& text, int64_t width, std::string_view fill, char align) {
  const int64_t missing = width - count_chars(text.text);
  if (missing > 0) rt.limits.use(static_cast<size_t>(missing) * fill.size());
  // If both the padding and the width are odd, Python's str.center adds the extra character on the left.
  const int64_t left = align == '<' ? 0 : (align == '>' ? missing : missing / 2 + (missing & width & 1));
  TextBuilder out(rt.limits);
  for (int64_t i = 0; i < left; ++i)
    out.add(fill);
  out.add(text);
  for (int64_t i = std::max<int64_t>(left, 0); i < missing; ++i)
    out.add(fill);
  return out.take();
}

namespace {

const JinjaText& self_text(const Value& self) {
  return *self.text();
}
const JinjaText* optional_text(const Value* value, const char* what) {
  return value == nullptr || value->is_none() ? nullptr : &need_text(*value, what);
}

template <bool kLeft, bool kRight>
Value strip(Runtime&, const Value& self, const Bound& a) {
  return Value(strip_text(self_text(self), optional_text(a[0], "strip"), kLeft, kRight));
}
template <LetterCase kTo>
Value cased_method(Runtime& rt, const Value& self, const Bound&) {
  rt.limits.use(self_text(self).text.size());
  return Value(change_case(self_text(self), kTo));
}

Value split(Runtime& rt, const Value& self, const Bound& a) {
  return split_text(rt, self_text(self), optional_text(a[0], "split"), integer_or(a[1], "maxsplit", -1));
}

Value rsplit(Runtime& rt, const Value& self, const Bound& a) {
  const JinjaText& text = self_text(self);
  const JinjaText* separator = optional_text(a[0], "rsplit");
  const int64_t most = integer_or(a[1], "maxsplit", -1);
  if (most < 0) return split_text(rt, text, separator, -1);
  if (separator == nullptr) fail_unsupported("rsplit with maxsplit and no separator is not supported");
  if (separator->text.empty()) fail("rsplit: the separator is empty");
  rt.limits.use(text.text.size());
  std::vector<Value> parts;
  size_t end = text.text.size();
  while (std::ssize(parts) < most && end >= separator->text.size()) {
    const size_t at = text.text.rfind(separator->text, end - separator->text.size());
    if (at == std::string::npos) break;
    parts.emplace_back(text.substr(at + separator->text.size(), end));
    end = at;
  }
  parts.emplace_back(text.substr(0, end));
  std::ranges::reverse(parts);
  return make_list(std::move(parts));
}

Value splitlines(Runtime& rt, const Value& self, const Bound& a) {
  rt.limits.use(self_text(self).text.size());
  std::vector<Value> lines;
  for (JinjaText& line : text_lines(self_text(self), flag_or(rt, a[0], false)))
    lines.emplace_back(std::move(line));
  rt.limits.step(std::ssize(lines));
  return make_list(std::move(lines));
}

// A part of a text, and the index of its first character.
struct TextPart {
  std::string_view text;
  int64_t begin;
};
TextPart part_of(const JinjaText& text, const Value* begin, const Value* end) {
  if (begin == nullptr && end == nullptr) return {text.text, 0};
  const std::vector<size_t> offsets = char_offsets(text.text);
  const int64_t n = std::ssize(offsets) - 1;
  const auto bound = [&](const Value* value, int64_t other) {
    const int64_t at = integer_or(value, "start or end", other);
    return std::clamp(at < 0 ? std::max<int64_t>(at + n, 0) : at, int64_t{0}, n);
  };
  const int64_t from = bound(begin, 0), to = std::max(bound(end, n), from);
  const size_t first = offsets[static_cast<size_t>(from)];
  return {std::string_view(text.text).substr(first, offsets[static_cast<size_t>(to)] - first), from};
}

template <bool kEnds>
Value starts_or_ends(Runtime& rt, const Value& self, const Bound& a) {
  const std::string_view text = part_of(self_text(self), a[1], a[2]).text;
  const std::vector<Value> all = a[0]->list() != nullptr ? iterate(rt, *a[0]) : std::vector<Value>{*a[0]};
  return Value(std::ranges::any_of(all, [&](const Value& value) {
    const std::string& part = need_text(value, kEnds ? "endswith" : "startswith").text;
    return kEnds ? text.ends_with(part) : text.starts_with(part);
  }));
}

template <bool kLast>
int64_t position(Runtime& rt, const Value& self, const Bound& a) {
  const TextPart part = part_of(self_text(self), a[1], a[2]);
  rt.limits.step(std::ssize(part.text) / 16);
  const std::string& wanted = need_text(*a[0], "find").text;
  const size_t at = kLast ? part.text.rfind(wanted) : part.text.find(wanted);
  return at == std::string_view::npos ? -1 : part.begin + count_chars(part.text.substr(0, at));
}
template <bool kLast>
Value find(Runtime& rt, const Value& self, const Bound& a) {
  return Value(position<kLast>(rt, self, a));
}
template <bool kLast>
Value index(Runtime& rt, const Value& self, const Bound& a) {
  const int64_t at = position<kLast>(rt, self, a);
  if (at < 0) fail("index: substring not found");
  return Value(at);
}

Value count(Runtime& rt, const Value& self, const Bound& a) {
  const std::string_view text = part_of(self_text(self), a[1], a[2]).text;
  const std::string& wanted = need_text(*a[0], "count").text;
  rt.limits.step(std::ssize(text) / 16);
  if (wanted.empty()) return Value(count_chars(text) + 1);
  int64_t n = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size()))
    ++n;
  return Value(n);
}

Value replace_method(Runtime& rt, const Value& self, const Bound& a) {
  return replace_text(rt, self_text(self), need_text(*a[0], "replace"), need_text(*a[1], "replace"),
                      integer_or(a[2], "count", -1));
}

Value join_method(Runtime& rt, const Value& self, const Bound& a) {
  TextBuilder out(rt.limits);
  bool first = true;
  for (const Value& item : iterate(rt, *a[0])) {
    if (!std::exchange(first, false)) out.add(self_text(self));
    out.add(need_text(item, "an item to join"));
  }
  return out.value();
}

template <bool kLast>
Value partition(Runtime& rt, const Value& self, const Bound& a) {
  const JinjaText& text = self_text(self);
  const JinjaText& separator = need_text(*a[0], "partition");
  if (separator.text.empty()) fail("partition: the separator is empty");
  rt.limits.use(text.text.size());
  const size_t at = kLast ? text.text.rfind(separator.text) : text.text.find(separator.text);
  std::vector<Value> parts;
  if (at == std::string::npos) {
    parts = {Value(""), Value("")};
    parts.insert(kLast ? parts.end() : parts.begin(), self);
  } else {
    const size_t behind = at + separator.text.size();
    parts = {Value(text.substr(0, at)), Value(text.substr(at, behind)),
             Value(text.substr(behind, text.text.size()))};
  }
  return make_list(std::move(parts), ListKind::tuple);
}

template <bool kSuffix>
Value remove_end(Runtime&, const Value& self, const Bound& a) {
  const JinjaText& text = self_text(self);
  const std::string& part = need_text(*a[0], kSuffix ? "removesuffix" : "removeprefix").text;
  const size_t n = text.text.size();
  if (kSuffix) return text.text.ends_with(part) ? Value(text.substr(0, n - part.size())) : self;
  return text.text.starts_with(part) ? Value(text.substr(part.size(), n)) : self;
}

template <char kAlign>
Value justify(Runtime& rt, const Value& self, const Bound& a) {
  const std::string fill = text_or(a[1], "fillchar", " ");
  if (count_chars(fill) != 1) fail("fillchar: expected one character");
  return Value(pad_text(rt, self_text(self), need_integer(*a[0], "width"), fill, kAlign));
}

Value zfill(Runtime& rt, const Value& self, const Bound& a) {
  const JinjaText& text = self_text(self);
  const size_t sign = text.text.starts_with('-') || text.text.starts_with('+') ? 1 : 0;
  const int64_t width = need_integer(*a[0], "width") - static_cast<int64_t>(sign);
  TextBuilder out(rt.limits);
  return out.add(text, 0, sign)
      .add(pad_text(rt, text.substr(sign, text.text.size()), width, "0", '>'))
      .value();
}

bool is_digit(char32_t c) {
  return is_ascii_digit(c);
}
bool is_letter(char32_t c) {
  return is_lowercase(c) || is_uppercase(c);
}
template <bool (*kIs)(char32_t)>
Value all_are(Runtime&, const Value& self, const Bound&) {
  const std::string& text = self_text(self).text;
  if (kIs != &is_python_space &&
      std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) > 127; }))
    fail_unsupported("character tests such as isalpha are not supported for text outside ASCII");
  return Value(all_chars(text, kIs));
}
bool is_alnum(char32_t c) {
  return is_digit(c) || is_letter(c);
}
// Returns true if the text contains cased characters, and all of them have the required case.
template <bool kUpper>
Value one_case(Runtime&, const Value& self, const Bound&) {
  bool some = false;
  const std::string& text = self_text(self).text;
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(decode_utf8(text, at).length)) {
    const char32_t c = decode_utf8(text, at).code;
    if (is_titlecase(c) || (kUpper ? is_lowercase(c) : is_uppercase(c))) return Value(false);
    some = some || (kUpper ? is_uppercase(c) : is_lowercase(c));
  }
  return Value(some);
}

}  // namespace

std::span<const Builtin> text_methods() {
  static constexpr Builtin kAll[] = {
      {"strip", "chars", 0, strip<true, true>},
      {"lstrip", "chars", 0, strip<true, false>},
      {"rstrip", "chars", 0, strip<false, true>},
      {"split", "sep maxsplit", 0, split},
      {"rsplit", "sep maxsplit", 0, rsplit},
      {"splitlines", "keepends", 0, splitlines},
      {"startswith", "prefix start end", 1, starts_or_ends<false>},
      {"endswith", "suffix start end", 1, starts_or_ends<true>},
      {"find", "sub start end", 1, find<false>},
      {"rfind", "sub start end", 1, find<true>},
      {"index", "sub start end", 1, index<false>},
      {"rindex", "sub start end", 1, index<true>},
      {"count", "sub start end", 1, count},
      {"replace", "old new count", 2, replace_method},
      {"join", "iterable", 1, join_method},
      {"partition", "sep", 1, partition<false>},
      {"rpartition", "sep", 1, partition<true>},
      {"removeprefix", "prefix", 1, remove_end<false>},
      {"removesuffix", "suffix", 1, remove_end<true>},
      {"upper", "", 0, cased_method<LetterCase::upper>},
      {"lower", "", 0, cased_method<LetterCase::lower>},
      {"title", "", 0, cased_method<LetterCase::title>},
      {"capitalize", "", 0, cased_method<LetterCase::capitalize>},
      {"swapcase", "", 0, cased_method<LetterCase::swap>},
      {"ljust", "width fillchar", 1, justify<'<'>},
      {"rjust", "width fillchar", 1, justify<'>'>},
      {"center", "width fillchar", 1, justify<'^'>},
      {"zfill", "width", 1, zfill},
      {"isdigit", "", 0, all_are<is_digit>},
      {"isdecimal", "", 0, all_are<is_digit>},
      {"isnumeric", "", 0, all_are<is_digit>},
      {"isalpha", "", 0, all_are<is_letter>},
      {"isalnum", "", 0, all_are<is_alnum>},
      {"isspace", "", 0, all_are<is_python_space>},
      {"isupper", "", 0, one_case<true>},
      {"islower", "", 0, one_case<false>},
  };
  return kAll;
}

}  // namespace gpt::jinja

#include "base/utf8.h"

#include <fmt/core.h>

#include "base/error.h"

namespace gpt {
namespace {

// The properties of a lead byte. The range of the second byte (Unicode standard, table 3-7) excludes overlong
// forms (E0, F0), surrogates (ED) and code points above U+10FFFF (F4).
struct Lead {
  int length;  // length of the character in bytes; 0: the byte cannot start a character
  unsigned char second_min, second_max;
};

Lead classify(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Appends the text to `out`, with U+FFFD for invalid parts. If `final` is false, stops before an incomplete
// last character. Returns the position where it stopped.
size_t append_replaced(std::string& out, std::string_view text, bool final) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Char c = decode_utf8(text, at);
    if (c.status == Utf8Status::incomplete && !final) break;
    if (c.status == Utf8Status::valid) {
      out.append(text.substr(at, static_cast<size_t>(c.length)));
    } else {
      append_utf8(out, kReplacementChar);
    }
    at += static_cast<size_t>(c.length);
  }
  return at;
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t at) {
  GPT_ASSERT(at < text.size());
  const auto first = static_cast<unsigned char>(text[at]);
  const Lead lead = classify(first);
  if (lead.length == 0) return {kReplacementChar, 1, Utf8Status::invalid};
  if (lead.length == 1) return {first, 1, Utf8Status::valid};
  // The lead byte of an n-byte character carries 7 - n bits of the code point.
  char32_t code = first & (0x7Fu >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    const size_t next = at + static_cast<size_t>(i);
    if (next >= text.size()) return {kReplacementChar, i, Utf8Status::incomplete};
    const auto byte = static_cast<unsigned char>(text[next]);
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return {kReplacementChar, i, Utf8Status::invalid};
    code = code << 6 | (byte & 0x3Fu);
  }
  return {code, lead.length, Utf8Status::valid};
}

void append_utf8(std::string& out, char32_t code) {
  GPT_ASSERT(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF));
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::optional<int64_t> first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Char c = decode_utf8(text, at);
    if (c.status != Utf8Status::valid) return static_cast<int64_t>(at);
    at += static_cast<size_t>(c.length);
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  append_replaced(out, text, true);
  return out;
}

int64_t count_chars(std::string_view text) {
  int64_t n = 0;
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(decode_utf8(text, at).length))
    ++n;
  return n;
}

std::string printable_text(std::string_view text, int64_t max_chars) {
  std::string out;
  size_t at = 0;
  for (int64_t i = 0; i < max_chars && at < text.size(); ++i) {
    const Utf8Char c = decode_utf8(text, at);
    at += static_cast<size_t>(c.length);
    const char32_t code = c.code;
    if (code == '\n') {
      out += "\\n";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\\') {
      out += "\\\\";
    } else if (code < 0x20 || (code >= 0x7F && code < 0xA0)) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(code));
    } else {
      append_utf8(out, code);
    }
  }
  return out;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  pending_.erase(0, append_replaced(out, pending_, false));
  return out;
}

std::string Utf8Stream::flush() {
  std::string out;
  append_replaced(out, pending_, true);
  pending_.clear();
  return out;
}

}  // namespace gpt

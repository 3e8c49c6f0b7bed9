#include "data/text_notes.h"

#include <fmt/format.h>

#include "text/utf8.h"

namespace gpt {
namespace {

int64_t crlf_lines(std::string_view text) {
  int64_t n = 0;
  for (size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1))
    n += text.substr(at + 1).starts_with('\n') ? 1 : 0;
  return n;
}

}  // namespace

TextFacts text_facts(const TextBlock& block) {
  TextFacts facts{.mark = block.mark_bytes > 0};
  if (block.json) return facts;  // its reader knows what to do with the other two
  facts.crlf = crlf_lines(block.text);
  if (const auto at = first_invalid_utf8(block.text))
    facts.invalid = block.begin.offset + block.mark_bytes + static_cast<uint64_t>(*at);
  return facts;
}

void TextNotes::Kind::add(const std::string& path, int64_t n) {
  if (n == 0) return;
  if (files == 0) first = path;
  if (last != path) ++files;
  last = path;
  count += n;
}

std::string TextNotes::Kind::names() const {
  if (files == 1) return first;
  return fmt::format("{} and {} more file{}", first, files - 1, files == 2 ? "" : "s");
}

void TextNotes::add(const std::string& path, const TextFacts& facts) {
  mark_.add(path, facts.mark ? 1 : 0);
  crlf_.add(path, facts.crlf);
  if (facts.invalid && invalid_.files == 0) invalid_at_ = *facts.invalid;
  invalid_.add(path, facts.invalid ? 1 : 0);
}

std::string TextNotes::lines() const {
  std::string text;
  if (mark_.files > 0) text += mark_.names() + ": the byte order mark in front is left out\n";
  if (crlf_.files > 0) {
    text += fmt::format("{}: {} line{} with CRLF, and the CR is part of the text\n", crlf_.names(),
                        crlf_.count, crlf_.count == 1 ? " ends" : "s end");
  }
  if (invalid_.files == 1)
    text += fmt::format("{}: not UTF-8 at byte {}; taken as bytes\n", invalid_.first, invalid_at_);
  if (invalid_.files > 1) {
    text +=
        fmt::format("{}: not UTF-8, the first at byte {}; taken as bytes\n", invalid_.names(), invalid_at_);
  }
  return text;
}

}  // namespace gpt

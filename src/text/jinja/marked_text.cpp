#include "text/jinja/marked_text.h"

#include <algorithm>

namespace gpt {

void JinjaText::append(std::string_view more, int32_t origin, bool generated) {
  if (more.empty()) return;
  const size_t begin = text.size(), end = begin + more.size();
  text += more;
  if (!spans.empty() && spans.back().origin == origin && spans.back().generated == generated) {
    spans.back().end = end;
  } else {
    spans.push_back({begin, end, origin, generated});
  }
}

void JinjaText::append(const JinjaText& other, size_t begin, size_t end) {
  if (begin >= end) return;
  for (const JinjaSpan* span = &other.span_at(begin); begin < end; ++span) {
    const size_t stop = std::min(end, span->end);
    append(std::string_view(other.text).substr(begin, stop - begin), span->origin, span->generated);
    begin = stop;
  }
}

JinjaText JinjaText::substr(size_t begin, size_t end) const {
  JinjaText out;
  out.append(*this, begin, end);
  return out;
}

const JinjaSpan& JinjaText::span_at(size_t at) const {
  return *std::ranges::upper_bound(spans, at, {}, &JinjaSpan::end);
}

void JinjaText::mark_generated() {
  JinjaText out;
  for (const JinjaSpan& span : spans)
    out.append(std::string_view(text).substr(span.begin, span.end - span.begin), span.origin, true);
  *this = std::move(out);
}

}  // namespace gpt

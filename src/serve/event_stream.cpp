#include "serve/event_stream.h"

#include "base/error.h"

namespace gpt::serve {

void EventReader::push(std::string_view piece) {
  for (const char c : piece) {
    if (c != '\n') {
      line_ += c;
      continue;
    }
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(line_);
    line_.clear();
  }
  if (line_.size() + data_.size() > kLongest)
    fail("an event of the server is longer than {} bytes", kLongest);
}

// Ignores comments and all fields except data.
void EventReader::take_line(std::string_view line) {
  constexpr std::string_view kField = "data:";
  if (line.empty()) {
    if (any_) take_(data_);
    data_.clear();
    any_ = false;
  } else if (line.starts_with(kField)) {
    line.remove_prefix(kField.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (any_) data_ += '\n';
    data_ += line;
    any_ = true;
  }
}

}  // namespace gpt::serve

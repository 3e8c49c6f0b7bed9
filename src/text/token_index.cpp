#include "text/token_index.h"

#include "base/error.h"
#include "base/utf8.h"

namespace gpt::detail {

int32_t TokenIndex::find(const std::string& token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

int32_t TokenIndex::id_of(const std::string& token, size_t merge) const {
  const int32_t id = find(token);
  if (id < 0) {
    fail("cannot read {}: merge {} uses the token \"{}\", which is not in the vocabulary", name_, merge,
         printable_text(token, 40));
  }
  return id;
}

Bpe::Merge TokenIndex::merge(const std::string& left, const std::string& right, size_t at) const {
  return {id_of(left, at), id_of(right, at), id_of(left + right, at)};
}

Bpe::Merge TokenIndex::merge(std::string_view line, size_t at) const {
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
    fail("cannot read {}: merge {}: expected two tokens, found \"{}\"", name_, at, printable_text(line, 80));
  }
  return merge(std::string(line.substr(0, blank)), std::string(line.substr(blank + 1)), at);
}

}  // namespace gpt::detail

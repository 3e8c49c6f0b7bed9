#include "text/bpe.h"

#include <algorithm>

#include "base/error.h"
#include "text/utf8.h"

namespace gpt {

Bpe::Bpe(std::vector<std::string> tokens, std::vector<Merge> merges)
    : tokens_(std::move(tokens)), merges_(std::move(merges)), table_(merges_.size()) {
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty()) by_bytes_.push_back(static_cast<int32_t>(id));
  }
  const auto bytes = [&](int32_t id) -> const std::string& { return tokens_[static_cast<size_t>(id)]; };
  std::sort(by_bytes_.begin(), by_bytes_.end(), [&](int32_t a, int32_t b) { return bytes(a) < bytes(b); });
  for (size_t i = 1; i < by_bytes_.size(); ++i) {
    if (bytes(by_bytes_[i - 1]) != bytes(by_bytes_[i])) continue;
    fail("the tokens {} and {} have the same bytes", by_bytes_[i - 1], by_bytes_[i]);
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[b] = find({&byte, 1});
    if (byte_ids_[b] < 0) fail("the vocabulary has no token for the byte {:#04x}", b);
  }
  for (size_t i = 0; i < merges_.size(); ++i) {
    const Merge& m = merges_[i];
    for (const int32_t id : {m.left, m.right, m.result}) {
      if (id < 0 || id >= std::ssize(tokens_))
        fail("merge {} names the token {}, which does not exist", i, id);
    }
    if (bytes(m.left) + bytes(m.right) != bytes(m.result)) {
      fail("merge {} of \"{}\" and \"{}\" gives \"{}\"", i, printable_text(bytes(m.left), 40),
           printable_text(bytes(m.right), 40), printable_text(bytes(m.result), 40));
    }
    table_.add(m.left, m.right, {static_cast<int32_t>(i), m.result});
  }
}

int32_t Bpe::find(std::string_view bytes) const {
  const auto found =
      std::lower_bound(by_bytes_.begin(), by_bytes_.end(), bytes,
                       [&](int32_t id, std::string_view b) { return tokens_[static_cast<size_t>(id)] < b; });
  return found != by_bytes_.end() && tokens_[static_cast<size_t>(*found)] == bytes ? *found : -1;
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  ids.resize(before + piece.size());
  for (size_t i = 0; i < piece.size(); ++i)
    ids[before + i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  table_.merge(ids, before);
}

}  // namespace gpt

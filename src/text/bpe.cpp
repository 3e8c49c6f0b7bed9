#include "text/bpe.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/utf8.h"

namespace gpt {

Bpe::Bpe(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty()) by_bytes_.push_back(static_cast<int32_t>(id));
  }
  std::ranges::sort(by_bytes_, [&](int32_t a, int32_t b) { return bytes(a) < bytes(b); });
  for (size_t i = 1; i < by_bytes_.size(); ++i) {
    if (bytes(by_bytes_[i - 1]) != bytes(by_bytes_[i])) continue;
    fail("the tokens {} and {} have the same bytes", by_bytes_[i - 1], by_bytes_[i]);
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[b] = find({&byte, 1});
    if (byte_ids_[b] < 0) has_all_bytes_ = false;
  }
}

Bpe::Bpe(std::vector<std::string> tokens, std::vector<Merge> merges, int32_t unknown)
    : Bpe(std::move(tokens)) {
  merges_ = std::move(merges);
  table_ = merge_table(merges_, {tokens_.begin(), tokens_.end()});
  if (has_all_bytes_) find_joints();
  if (!has_all_bytes_ && unknown >= 0) {
    unknown_ = unknown;
    std::ranges::replace(byte_ids_, -1, unknown);
    has_all_bytes_ = true;
  }
}

void Bpe::find_joints() {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges_.size());
  for (const Merge& m : merges_) {
    if (!bytes(m.left).empty() && !bytes(m.right).empty()) pairs.emplace_back(bytes(m.left), bytes(m.right));
  }
  joints_ = detail::Joints(pairs);
  has_joints_ = true;
}

// Derives the merges from the ranks. A pair of symbols is only merged when no pair inside its bytes can be
// merged with a lower rank. The loop therefore encodes the bytes of each token with the merges of all lower
// ranks. If the result has two symbols, this pair is the only merge that produces the token. If the result
// has more symbols, some parts of the token have higher ranks than the token. In this case, every pair of
// tokens whose concatenation is the token becomes a merge.
Bpe Bpe::of_ranks(std::vector<std::string> tokens) {
  Bpe bpe(std::move(tokens));
  for (int b = 0; b < 256; ++b) {
    if (bpe.byte_ids_[b] < 0) fail("the vocabulary has no token for the byte {:#04x}", b);
  }
  bpe.table_ = MergeTable(bpe.tokens_.size());
  // Limits the work for tokens with more than two symbols. Published vocabularies do not contain such tokens.
  size_t budget = size_t{1} << 20;
  std::vector<int32_t> symbols;
  for (size_t id = 0; id < bpe.tokens_.size(); ++id) {
    const std::string_view token = bpe.tokens_[id];
    const auto result = static_cast<int32_t>(id);
    if (token.size() < 2) continue;
    const auto add = [&](int32_t left, int32_t right) {
      bpe.table_.add(left, right, {result, result});
      bpe.merges_.push_back({left, right, result});
    };
    symbols.clear();
    bpe.encode(token, symbols);
    if (symbols.size() == 2) {
      add(symbols[0], symbols[1]);
      continue;
    }
    if (token.size() > budget)
      fail("token {} and many earlier tokens cannot be merged from two tokens of lower rank", id);
    budget -= token.size();
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const int32_t left = bpe.find(token.substr(0, cut)), right = bpe.find(token.substr(cut));
      if (left >= 0 && right >= 0) add(left, right);
    }
  }
  bpe.find_joints();
  return bpe;
}

int32_t Bpe::find(std::string_view bytes) const {
  const auto found = std::ranges::lower_bound(
      by_bytes_, bytes, {}, [&](int32_t id) -> std::string_view { return tokens_[static_cast<size_t>(id)]; });
  return found != by_bytes_.end() && tokens_[static_cast<size_t>(*found)] == bytes ? *found : -1;
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  ids.resize(before + piece.size());
  for (size_t i = 0; i < piece.size(); ++i)
    ids[before + i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  if (!has_all_bytes_)
    ids.erase(std::remove(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), -1), ids.end());
  table_.merge(ids, before);
}

MergeTable merge_table(const std::vector<Bpe::Merge>& merges, const std::vector<std::string_view>& tokens) {
  MergeTable table(merges.size());
  const auto text = [&](int32_t id) { return tokens[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < merges.size(); ++i) {
    const Bpe::Merge& m = merges[i];
    for (const int32_t id : {m.left, m.right, m.result}) {
      if (id < 0 || id >= std::ssize(tokens)) fail("merge {} uses the token {}, which does not exist", i, id);
    }
    const std::string_view left = text(m.left), right = text(m.right), result = text(m.result);
    if (result.size() != left.size() + right.size() || !result.starts_with(left) ||
        !result.ends_with(right)) {
      fail("merge {} of \"{}\" and \"{}\" has the wrong result \"{}\"", i, printable_text(left, 40),
           printable_text(right, 40), printable_text(result, 40));
    }
    table.add(m.left, m.right, {static_cast<int32_t>(i), m.result});
  }
  return table;
}

// Two merges with different results cannot be duplicates. The search for duplicates is therefore skipped if
// all results are different.
void keep_last_of_equal(std::vector<Bpe::Merge>& merges) {
  std::vector<bool> given;
  bool twice = false;
  for (const Bpe::Merge& m : merges) {
    const auto id = static_cast<size_t>(m.result);
    if (id >= given.size()) given.resize(2 * id + 1);
    twice |= given[id];
    given[id] = true;
  }
  if (!twice) return;
  std::set<std::pair<int32_t, int32_t>> seen;
  std::vector<Bpe::Merge> kept;
  for (auto m = merges.rbegin(); m != merges.rend(); ++m) {
    if (seen.emplace(m->left, m->right).second) kept.push_back(*m);
  }
  merges.assign(kept.rbegin(), kept.rend());
}

}  // namespace gpt

#include "text/spm_merges.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"

namespace gpt::detail {
namespace {

using Pieces = std::vector<SpmParts::Piece>;
using Type = SpmParts::Type;

// Maximum length of a piece in bytes. Finding the halves of a piece takes quadratic time in the length.
// Published pieces have at most 16 characters or 16 spaces.
constexpr size_t kLongestPiece = 256;

bool merges_into(const SpmParts::Piece& piece) {
  return !piece.text.empty() && (piece.type == Type::normal || piece.type == Type::unused);
}

// Fills `bounds` with the positions at which characters begin and the end of the text.
void find_character_bounds(const std::string& text, std::vector<size_t>& bounds) {
  bounds.clear();
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(decode_utf8(text, at).length))
    bounds.push_back(at);
  bounds.push_back(text.size());
}

std::unordered_map<std::string_view, int32_t> index_of(const Pieces& pieces) {
  std::unordered_map<std::string_view, int32_t> index;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string& text = pieces[id].text;
    if (text.empty()) continue;
    if (first_invalid_utf8(text)) fail("piece {}, \"{}\", is not valid UTF-8", id, printable_text(text, 40));
    if (!index.emplace(text, static_cast<int32_t>(id)).second)
      fail("\"{}\" is both piece {} and piece {}", printable_text(text, 40), index.at(text), id);
  }
  return index;
}

}  // namespace

SpmMerges::SpmMerges(const Pieces& pieces, bool by_score, const std::vector<Bpe::Merge>& list)
    : by_code_(0x110000), by_score_(by_score) {
  const Index index = index_of(pieces);
  for (const SpmParts::Piece& piece : pieces)
    used_.push_back(piece.type != Type::unused);
  add_characters(pieces, by_score);
  if (by_score) {
    merge_by_score(pieces, index);
  } else {
    merge_by_list(pieces, list);
  }
  find_adjacent(pieces);
}

size_t SpmMerges::class_of(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return byte;
  return text.substr(at).starts_with(kBlank) ? kBlankClass : kBlankClass + 1;
}

void SpmMerges::find_adjacent(const Pieces& pieces) {
  adjacent_.assign(kClasses * kClasses, 0);
  for (const Bpe::Merge& m : list_) {
    const std::string& text = pieces[static_cast<size_t>(m.result)].text;
    size_t last = class_of(text, 0);
    for (size_t at = static_cast<size_t>(decode_utf8(text, 0).length); at < text.size();) {
      const size_t next = class_of(text, at);
      adjacent_[last * kClasses + next] = 1;
      last = next;
      at += static_cast<size_t>(decode_utf8(text, at).length);
    }
  }
}

size_t SpmMerges::chunk_end(std::string_view text, size_t at) const {
  size_t last = class_of(text, at);
  for (;;) {
    at += last < 128 ? 1 : static_cast<size_t>(decode_utf8(text, at).length);
    if (at >= text.size()) return text.size();
    const size_t next = class_of(text, at);
    if (adjacent_[last * kClasses + next] == 0) return at;
    last = next;
  }
}

void SpmMerges::add_characters(const Pieces& pieces, bool parts_too) {
  for (size_t code = 0; code < by_code_.size(); ++code)
    by_code_[code] = -2 - static_cast<int32_t>(code);
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!merges_into(pieces[id])) continue;
    const Utf8Char c = decode_utf8(pieces[id].text, 0);
    if (static_cast<size_t>(c.length) == pieces[id].text.size()) by_code_[c.code] = static_cast<int32_t>(id);
  }
  for (const SpmParts::Piece& piece : pieces) {
    if (!parts_too || !merges_into(piece)) continue;
    for (size_t at = 0; at < piece.text.size();) {
      const Utf8Char c = decode_utf8(piece.text, at);
      at += static_cast<size_t>(c.length);
      if (by_code_[c.code] >= 0) continue;
      by_code_[c.code] = static_cast<int32_t>(pieces.size() + parts_.size());
      parts_.push_back(c.code);
    }
  }
}

void SpmMerges::merge_by_score(const Pieces& pieces, const Index& index) {
  std::vector<float> ranks;  // distinct scores in descending order
  std::vector<size_t> bounds;
  const auto symbol = [&](std::string_view text) {
    const Utf8Char c = decode_utf8(text, 0);
    if (static_cast<size_t>(c.length) == text.size()) return by_code_[c.code];
    const auto found = index.find(text);
    return found != index.end() && merges_into(pieces[static_cast<size_t>(found->second)]) ? found->second
                                                                                           : -1;
  };
  const auto score = [&](const Bpe::Merge& m) { return pieces[static_cast<size_t>(m.result)].score; };
  for (size_t id = 0; id < pieces.size(); ++id) {
    const SpmParts::Piece& piece = pieces[id];
    if (!merges_into(piece)) continue;
    if (!std::isfinite(piece.score)) fail("the score of piece {} is not finite", id);
    if (piece.text.size() > kLongestPiece)
      fail("piece {} has {} bytes; expected at most {}", id, piece.text.size(), kLongestPiece);
    find_character_bounds(piece.text, bounds);
    const std::string_view text = piece.text;
    for (size_t i = 1; i + 1 < bounds.size(); ++i) {
      const int32_t left = symbol(text.substr(0, bounds[i]));
      const int32_t right = left < 0 ? -1 : symbol(text.substr(bounds[i]));
      if (right < 0) continue;
      list_.push_back({left, right, static_cast<int32_t>(id)});
      if (piece.type == Type::unused) unused_.emplace(static_cast<int32_t>(id), list_.back());
    }
    ranks.push_back(piece.score);
  }
  std::ranges::stable_sort(list_,
                           [&](const Bpe::Merge& a, const Bpe::Merge& b) { return score(a) > score(b); });
  std::ranges::sort(ranks, std::greater<>());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  table_ = MergeTable(list_.size());
  for (const Bpe::Merge& m : list_) {
    const auto at = std::ranges::lower_bound(ranks, score(m), std::greater<>());
    table_.add(m.left, m.right, {static_cast<int32_t>(at - ranks.begin()), m.result});
  }
}

void SpmMerges::merge_by_list(const Pieces& pieces, const std::vector<Bpe::Merge>& list) {
  list_ = list;
  table_ = merge_table(
      list, transformed(pieces, [](const SpmParts::Piece& piece) { return std::string_view(piece.text); }));
}

char32_t SpmMerges::code_of(int32_t symbol) const {
  if (symbol < 0) return static_cast<char32_t>(-2 - symbol);
  const auto part = static_cast<size_t>(symbol) - used_.size();
  return parts_[part];
}

bool SpmMerges::divide(int32_t symbol, std::vector<int32_t>& halves) const {
  const auto found = unused_.find(symbol);
  if (found == unused_.end()) return false;
  halves = {found->second.left, found->second.right};
  return true;
}

std::vector<float> SpmMerges::scores(const Pieces& pieces) const {
  auto scores = transformed(pieces, &SpmParts::Piece::score);
  if (by_score_) return scores;
  std::ranges::fill(scores, 0.0f);
  float next = -1;
  for (size_t i = 0; i < list_.size(); ++i) {
    float& score = scores[static_cast<size_t>(list_[i].result)];
    if (i > 0 && list_[i].result == list_[i - 1].result) continue;
    if (score != 0)
      fail("merge {} creates the same token as an earlier merge, which scores cannot represent", i);
    score = next--;
  }
  Pieces scored = pieces;
  for (size_t id = 0; id < pieces.size(); ++id)
    scored[id].score = scores[id] == 0 ? next : scores[id];
  const SpmMerges by_score(scored, true, {});
  if (by_score.list_.size() != list_.size())
    fail("scores would allow {} merges, but the merge list has {}", by_score.list_.size(), list_.size());
  for (size_t id = 0; id < pieces.size(); ++id)
    scores[id] = pieces[id].type == Type::normal ? scored[id].score : 0;
  return scores;
}

}  // namespace gpt::detail
